"""GGUF files, read back by llama.cpp's own library: every tensor and every setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.tinymodels import CONFIGS, TEMPLATE, own_folder, transformers, write_model

from railbed.errors import ModelError
from railbed.train.base.folder import ModelFolder
from railbed.train.worker.io.tensorfile import Weights
from railbed.train.worker.results.gguf.architectures import ARCHITECTURES, architecture_of
from railbed.train.worker.results.gguf.container import Q8_0, encode_numbers
from railbed.train.worker.results.gguf.tokenizerfile import TokenizerFile
from railbed.train.worker.results.gguf.vocabulary import SPLITS, pre_tokenizer
from railbed.train.worker.results.publish import open_source, write_as_gguf

gguf = pytest.importorskip("gguf")
pytestmark = pytest.mark.xdist_group("models")
CPU = torch.device("cpu")


def converted(folder: Path, into: Path, number_type: str = "f32") -> Any:
    into.mkdir()
    write_as_gguf(open_source(folder, CPU), into, number_type, "tiny", lambda _done, _all: None)
    return gguf.GGUFReader(into / "model.gguf")


def settings_of(reader: Any) -> dict[str, Any]:
    return {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}


def values_of(reader: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return every tensor as fp32, by its name."""
    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])
        for tensor in reader.tensors
    }


def undone(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Return the rows of queries or keys in transformers' order: an independent inverse of the interleaving."""
    size = tensor.shape[0] // heads
    order = [head * size + (row % (size // 2)) * 2 + row // (size // 2) for head in range(heads) for row in range(size)]
    return tensor[order]


def expected_tensors(folder: Path, kind: str) -> dict[str, torch.Tensor]:
    """Return the model's tensors under llama.cpp's names, by the library's own list of names."""
    architecture = {"mistral": "LLAMA", "gemma3_text": "GEMMA3"}.get(kind, kind.upper())
    layers = json.loads((folder / "config.json").read_text()).get("num_hidden_layers", 2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture], layers)
    tensors = {}
    for name, tensor in Weights(folder).items():
        own = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert own, name
        tensors[own] = tensor.T if kind == "gpt2" and own.startswith("blk") and tensor.dim() == 2 else tensor
        if "gemma" in kind and tensor.dim() == 1:
            tensors[own] = tensor + 1
    return tensors


@pytest.mark.parametrize(
    "kind", ["llama", "mistral", "qwen2", "qwen3", "gpt2", "gemma", "gemma2", "gemma3_text", "phi3"]
)
def test_every_tensor_is_there_under_its_name(kind: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / kind, kind, tie_word_embeddings=kind in {"gpt2", "qwen3"} or "gemma" in kind)
    reader = converted(folder, tmp_path / "gguf")
    values, expected = values_of(reader), expected_tensors(folder, kind)
    assert values.keys() == expected.keys()
    for name, tensor in expected.items():
        value = torch.from_numpy(values[name].copy())
        if kind in {"llama", "mistral"} and ("attn_q." in name or "attn_k." in name):
            value = undone(value, 4 if "attn_q." in name else 2)
        assert torch.equal(value, tensor.float()), name


def test_the_settings_of_a_llama(tmp_path: Path) -> None:
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0}
    folder = write_model(tmp_path / "llama", "llama", chat=True, rope_parameters=rope)
    settings = settings_of(converted(folder, tmp_path / "gguf"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    count = len(tokenizer["model"]["vocab"])
    tokens = settings.pop("tokenizer.ggml.tokens")
    assert {token: number for number, token in enumerate(tokens)} == tokenizer["model"]["vocab"]
    assert settings.pop("tokenizer.ggml.token_type") == [3] + [1] * (count - 1)
    assert settings.pop("tokenizer.ggml.merges") == [" ".join(merge) for merge in tokenizer["model"]["merges"]]
    assert settings.pop("llama.attention.layer_norm_rms_epsilon") == pytest.approx(1e-6)
    assert settings == {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": "tiny",
        "general.file_type": 0,
        "general.quantization_version": 2,
        "llama.block_count": 2,
        "llama.context_length": 128,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 96,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.key_length": 16,
        "llama.attention.value_length": 16,
        "llama.rope.dimension_count": 16,
        "llama.rope.freq_base": 5000.0,
        "llama.rope.scaling.type": "linear",
        "llama.rope.scaling.factor": 2.0,
        "llama.vocab_size": count,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def test_the_settings_of_gemma_and_phi_3(tmp_path: Path) -> None:
    gemma2 = settings_of(converted(write_model(tmp_path / "gemma2", "gemma2"), tmp_path / "a"))
    caps = ("attn_logit_softcapping", "final_logit_softcapping", "attention.sliding_window", "attention.key_length")
    assert [gemma2[f"gemma2.{key}"] for key in caps] == [50.0, 30.0, 16, 32]
    rope = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    }
    gemma3 = settings_of(
        converted(write_model(tmp_path / "gemma3", "gemma3_text", rope_parameters=rope), tmp_path / "b")
    )
    keys = ("freq_base", "freq_base_swa", "scaling.type", "scaling.factor")
    assert [gemma3[f"gemma3.rope.{key}"] for key in keys] == [5e5, 2e4, "linear", 8.0]
    factors = {"long_factor": [float(n) for n in range(1, 9)], "short_factor": [1.0] * 8}
    long = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 32, **factors}
    reader = converted(
        write_model(tmp_path / "phi3", "phi3", rope_parameters=long, original_max_position_embeddings=32),
        tmp_path / "c",
    )
    phi3 = settings_of(reader)
    assert phi3["phi3.rope.scaling.original_context_length"] == 32
    assert phi3["phi3.rope.scaling.attn_factor"] == pytest.approx((1 + 2 / 5) ** 0.5)  # 128 is 2^7, 32 is 2^5
    assert phi3["phi3.attention.sliding_window"] == 0
    assert values_of(reader)["rope_factors_long.weight"].tolist() == factors["long_factor"]


def test_own_models_have_their_context_and_the_name_of_their_pre_tokenizer(tmp_path: Path) -> None:
    settings = settings_of(converted(own_folder(tmp_path), tmp_path / "gguf"))
    assert settings["gpt2.context_length"] == 96
    assert settings["gpt2.feed_forward_length"] == 256
    assert settings["tokenizer.ggml.pre"] == "gpt-2"
    assert settings["gpt2.attention.layer_norm_epsilon"] == pytest.approx(1e-5)


def test_llama_3_slows_down_its_lower_frequencies(tmp_path: Path) -> None:
    """The same factors as transformers computes."""
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    rope = {"rope_type": "llama3", "rope_theta": 10_000.0, **scaling}
    folder = write_model(tmp_path / "llama", "llama", rope_parameters=rope)
    factors = values_of(converted(folder, tmp_path / "gguf"))["rope_freqs.weight"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    plain = 10_000.0 ** -(torch.arange(0, 16, 2) / 16)
    torch.testing.assert_close(plain / torch.from_numpy(factors.copy()), model.model.rotary_emb.inv_freq)


@pytest.mark.parametrize("number_type", ["f16", "bf16", "q8_0", "auto"])
def test_numbers_are_rounded_as_the_library_does(number_type: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "llama", "llama", dtype="bfloat16")
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in Weights(folder).items()}
    from railbed.train.worker.io.tensorfile import write_tensors

    (folder / "model.safetensors").unlink()
    write_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    reader = converted(folder, tmp_path / "gguf", number_type)
    kind = "bf16" if number_type == "auto" else number_type
    wanted = {"f16": "F16", "bf16": "BF16", "q8_0": "Q8_0"}[kind]
    by_name = {tensor.name: tensor for tensor in reader.tensors}
    assert by_name["token_embd.weight"].tensor_type.name == wanted
    assert by_name["blk.0.attn_norm.weight"].tensor_type.name == "F32"
    up = tensors["model.layers.1.mlp.up_proj.weight"].float().numpy()
    theirs = gguf.quants.quantize(up, gguf.GGMLQuantizationType[wanted])
    assert by_name["blk.1.ffn_up.weight"].data.tobytes() == theirs.tobytes()


def test_blocks_of_eight_bits_equal_the_library_also_at_halves_and_zeros() -> None:
    values = torch.cat([torch.zeros(32), torch.linspace(-127, 127, 32) * 0.5, torch.randn(3200) * 1e-3])
    ours = encode_numbers(values.reshape(2, -1)[:, :1600], Q8_0).numpy().tobytes()
    theirs = gguf.quants.quantize(values.reshape(2, -1)[:, :1600].numpy(), gguf.GGMLQuantizationType.Q8_0)
    assert ours == theirs.tobytes()


def test_rows_that_do_not_fill_blocks_are_stored_in_16_bits(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "qwen3", "qwen3", intermediate_size=72)
    reader = converted(folder, tmp_path / "gguf", "q8_0")
    types = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    assert (types["blk.0.ffn_down.weight"], types["blk.0.ffn_up.weight"]) == ("F16", "Q8_0")


@pytest.mark.parametrize(
    ("file", "change", "sentence"),
    [
        ("config.json", {"model_type": "mamba"}, "a model of type 'mamba' cannot be written as GGUF; supported are"),
        ("config.json", {"hidden_act": "gelu"}, "with the activation silu only"),
        ("config.json", {"vocab_size": 12}, "has tokens beyond the 12 rows"),
        ("config.json", {"num_hidden_layers": "two"}, "num_hidden_layers is not a positive whole number"),
        ("config.json", {"rope_parameters": {"rope_type": "longrope"}}, "rotary positions of type 'longrope'"),
        ("config.json", {"quantization_config": {"x": 1}}, "is quantised already"),
        ("tokenizer.json", {"pre_tokenizer": {"type": "Whitespace"}}, "by rules that have no known name in llama.cpp"),
        ("tokenizer.json", {"normalizer": {"type": "Lowercase"}}, "by rules that have no known name in llama.cpp"),
        ("tokenizer.json", {"model": {"type": "Unigram"}}, "is not a BPE, the only kind"),
        ("tokenizer.json", {"added_tokens": [{"id": "x"}]}, "an added token has no number"),
    ],
)
def test_what_cannot_be_converted_is_one_sentence(
    tmp_path: Path, file: str, change: dict[str, Any], sentence: str
) -> None:
    folder = write_model(tmp_path / "llama", "llama")
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **change}))
    with pytest.raises(ModelError, match=sentence):
        converted(folder, tmp_path / "gguf")
    assert list((tmp_path / "gguf").iterdir()) == []


def test_pre_tokenizers_of_well_known_models_have_names(tmp_path: Path) -> None:
    """As their tokenizer.json has them."""
    for regex, name in SPLITS.items():
        split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        content = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}}
        assert pre_tokenizer(TokenizerFile(tmp_path, content, {}, {}, {})) == name
        assert name in {"llama-bpe", "qwen2"}


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("gemma", {"tie_word_embeddings": False}, "llama.cpp has no gemma with a separate matrix lm_head"),
        ("gemma", {"hidden_activation": "relu"}, "with the activation gelu_pytorch_tanh only"),
        ("gemma", {"use_bidirectional_attention": True}, "whose tokens attend to those after them"),
        ("gemma2", {"layer_types": ["full_attention"] * 2}, "gemma2 with full attention in layers 2, 4, … only"),
        ("gemma2", {"query_pre_attn_scalar": 7}, "with query_pre_attn_scalar 32 only"),
        ("gemma2", {"attn_logit_softcapping": None}, "no gemma2 without attn_logit_softcapping"),
        ("gemma3_text", {"final_logit_softcapping": 30.0}, "no gemma3 with final_logit_softcapping"),
        (
            "gemma3_text",
            {"layer_types": None, "sliding_window_pattern": 3},
            "with full attention in layers 6, 12, … only",
        ),
        (
            "gemma3_text",
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear"}}},
            "rotary positions of type 'linear' have no place",
        ),
        ("phi3", {"rope_parameters": {"rope_type": "linear"}}, "rotary positions of type 'linear' have no place"),
        ("phi3", {"rope_parameters": {"rope_type": "su", "long_factor": [1.0]}}, "long_factor of the rotary positions"),
    ],
)
def test_shapes_that_llama_cpp_does_not_have_are_one_sentence(
    tmp_path: Path, kind: str, change: dict[str, Any], sentence: str
) -> None:
    settings = CONFIGS[kind][1]
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": kind, "vocab_size": 9, "rms_norm_eps": 1e-6, **settings, **change})
    )
    folder = ModelFolder.open(tmp_path)
    architecture = architecture_of(folder)
    with pytest.raises(ModelError, match=sentence):
        _ = architecture.settings(folder, architecture.name), architecture.added(folder)


def test_every_supported_type_is_one_of_llama_cpp() -> None:
    names = set(gguf.MODEL_ARCH_NAMES.values())
    assert {architecture.name for architecture in ARCHITECTURES.values()} <= names
