"""llama.cpp itself opens the GGUF files that railbed writes, and computes the same with them as transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from railbed.train.data.tokenizer import opened
from railbed.train.worker.results.gguf.vocabulary import SPLITS
from railbed.train.worker.results.publish import open_source, write_as_gguf
from tests.support.llamacpp import build, greedy
from tests.support.tinymodels import own_folder, transformers, write_model

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("models")]
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
@pytest.mark.parametrize("kind", ["own", "gpt2", "llama", "llama3", "mistral", "qwen2", "qwen3"])
def test_scores_and_greedy_tokens_are_those_of_transformers(
    program: Path, kind: str, number_type: str, tmp_path: Path
) -> None:
    """As far as the numbers of the file, and llama.cpp's own tables in 16 bits, allow."""
    folder = make(kind, tmp_path / "model")
    theirs = greedy(program, file_of(folder, tmp_path / "gguf", number_type), PROMPT, COUNT)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokens = opened(folder).encode(PROMPT).ids  # transformers has rules of its own for some types of models
    assert theirs["prompt"] == tokens
    with torch.inference_mode():
        scores = model(torch.tensor([tokens])).logits[0, -1]
    difference = (torch.tensor(theirs["scores"]) - scores).abs().max() / scores.abs().max()
    assert difference < CLOSE[number_type], difference
    if number_type == "f32":
        made = model.generate(
            torch.tensor([tokens]), max_new_tokens=COUNT, do_sample=False, pad_token_id=0, eos_token_id=10**6
        )
        assert theirs["greedy"] == made[0, len(tokens) :].tolist()


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
    assert theirs["prompt"] == opened(folder).encode(PROMPT).ids


def make(kind: str, folder: Path) -> Path:
    """Write a model of a kind."""
    if kind == "own":
        return own_folder(folder)
    if kind == "llama3":
        scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        rope = {"rope_type": "llama3", "rope_theta": 10_000.0, "original_max_position_embeddings": 32, **scaling}
        return write_model(folder, "llama", rope_parameters=rope)
    if kind == "mistral":
        return write_model(folder, kind, sliding_window=None)
    return write_model(folder, kind, head_dim=32) if kind == "qwen3" else write_model(folder, kind)
