"""llama.cpp itself opens the GGUF files that railbed writes, and computes the same with them as transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from railbed.train.data.tokenizer import open_tokenizer
from railbed.train.worker.results.gguf.vocabulary import SPLITS
from railbed.train.worker.results.publish import open_source, write_as_gguf
from tests.support.adapters import write_adapter
from tests.support.llamacpp import BUILD_SECONDS, build, greedy, tokenize
from tests.support.spm import STYLES, is_equal, texts_of
from tests.support.tinymodels import own_folder, transformers, write_model

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("models"), pytest.mark.timeout(BUILD_SECONDS)]
KINDS = (
    *("own", "gpt2", "llama", "llama2", "llama3", "mistral", "qwen2", "qwen3"),
    *("gemma", "gemma2", "gemma3_text", "phi3", "phi3_long"),
)
STYLE = {
    "llama2": "llama2",
    "mistral": "mistral",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3_text": "gemma",
    "phi3": "phi3",
}
"""Tokenizers in the manner of SentencePiece."""
MODELS = {"llama2": "llama", "mistral": "mistral", "gemma": "gemma", "phi3": "phi3"}
"""The model of each style."""
PROMPT = "12 grüne Flaschen hang on wall 47, isn't it?  🚲 1234567"
COUNT = 24
CLOSE = {"f32": 1e-2, "f16": 3e-2, "bf16": 6e-2, "q8_0": 2e-1}
"""Differences relative to the largest score; wrong names, rotations or tokens give 1 and more."""


@pytest.fixture(scope="module")
def program() -> Path:
    return build()


def file_of(folder: Path, into: Path, number_type: str) -> Path:
    into.mkdir()
    write_as_gguf(open_source(folder, torch.device("cpu")), into, number_type, "tiny", lambda _done, _all: None)
    return into / "model.gguf"


@pytest.mark.parametrize("number_type", ["f32", "f16", "bf16", "q8_0"])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_greedy_tokens_are_those_of_transformers(
    program: Path, kind: str, number_type: str, tmp_path: Path
) -> None:
    """As far as the numbers of the file, and llama.cpp's own tables in 16 bits, allow."""
    folder = make(kind, tmp_path / "model")
    theirs = greedy(program, file_of(folder, tmp_path / "gguf", number_type), PROMPT, COUNT)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokens = open_tokenizer(folder).encode(PROMPT).ids  # transformers has rules of its own for some types of models
    assert theirs["prompt"] == tokens
    with torch.inference_mode():
        scores = model(torch.tensor([tokens + theirs["greedy"]])).logits[0, len(tokens) - 1 : -1]
    largest = scores.abs().amax(dim=1)
    difference = (torch.tensor(theirs["scores"]) - scores[0]).abs().max() / largest[0]
    assert difference < CLOSE[number_type], difference
    # Two tokens may be equally good within these differences, so each has to be as good as the best.
    chosen = scores.gather(1, torch.tensor(theirs["greedy"])[:, None])[:, 0]
    regret = ((scores.amax(dim=1) - chosen) / largest).max()
    assert regret < CLOSE[number_type], regret


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("kind", ["llama2", "gemma", "gemma2", "gemma3_text", "phi3"])
def test_an_adapter_on_4_bits_computes_as_it_was_trained(program: Path, kind: str, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    base = make(kind, tmp_path / "base")
    trained = write_adapter(base, tmp_path / "adapter", "nf4")
    theirs = greedy(program, file_of(tmp_path / "adapter", tmp_path / "gguf", "f32"), PROMPT, 1)
    with torch.inference_mode():
        scores = trained.model(torch.tensor([theirs["prompt"]])).logits[0, -1]
    difference = (torch.tensor(theirs["scores"]) - scores).abs().max() / scores.abs().max()
    assert difference < CLOSE["f32"], difference


@pytest.mark.parametrize("regex", SPLITS, ids=SPLITS.get)
def test_named_rules_split_texts_as_the_tokenizer_does(program: Path, regex: str, tmp_path: Path) -> None:
    """The rules of Llama 3 and Qwen."""
    folder = write_model(tmp_path / "model", "llama")
    content = json.loads((folder / "tokenizer.json").read_text())
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, level]}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    theirs = greedy(program, file_of(folder, tmp_path / "gguf", "f32"), PROMPT, 1)
    assert theirs["prompt"] == open_tokenizer(folder).encode(PROMPT).ids


@pytest.mark.parametrize("style", STYLES)
def test_texts_have_the_same_tokens_and_back(program: Path, style: str, tmp_path: Path) -> None:
    """Spaces, lines, tabs, accents, other scripts, characters without a token, added tokens, and no text at all."""
    folder = write_model(tmp_path / "model", MODELS[style], style=style)
    texts = [text for text in texts_of(style, 2000) if is_equal(style, text)]
    theirs, pieces = tokenize(program, file_of(folder, tmp_path / "gguf", "f32"), texts)
    library = open_tokenizer(folder)
    for text, tokens in zip(texts, theirs, strict=True):
        assert tokens == library.encode(text).ids, text
        if style == "gemma":  # no spaces are added or removed
            assert b"".join(pieces[token] for token in tokens).decode() == f"<bos>{text}".replace("▁", " ")


@pytest.mark.parametrize("chat", [False, True])
def test_differences_are_as_documented(program: Path, chat: bool, tmp_path: Path) -> None:
    """If only the first text gets a space: docs/results.md has these differences."""
    folder = write_model(tmp_path / "model", "mistral", style="mistral", chat=chat)
    library = open_tokenizer(folder)
    documented = {"[INST]a[/INST] b": "[INST]a[/INST] b", " a": "a"} if chat else {"[INST]a": "[INST] a", " a": "  a"}
    theirs, _ = tokenize(program, file_of(folder, tmp_path / "gguf", "f32"), list(documented))
    assert theirs == [library.encode(text).ids for text in documented.values()]


def make(kind: str, folder: Path) -> Path:
    """Write a model of a kind."""
    if kind == "own":
        return own_folder(folder)
    if kind == "llama3":
        scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        rope = {"rope_type": "llama3", "rope_theta": 10_000.0, "original_max_position_embeddings": 32, **scaling}
        return write_model(folder, "llama", rope_parameters=rope)
    if kind == "phi3_long":
        factors = {"short_factor": [1.0] * 8, "long_factor": [1.0 + n / 4 for n in range(8)]}
        rope = {"rope_type": "longrope", "rope_theta": 10_000.0, "original_max_position_embeddings": 16, **factors}
        return write_model(folder, "phi3", style="phi3", rope_parameters=rope, original_max_position_embeddings=16)
    changes: dict[str, dict[str, Any]] = {"mistral": {"sliding_window": None}, "qwen3": {"head_dim": 32}}
    own = changes.get(kind, {})
    return write_model(folder, "llama" if kind == "llama2" else kind, style=STYLE.get(kind, ""), **own)
