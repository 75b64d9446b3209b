"""Types of models in GGUF: how llama.cpp names their tensors and settings, and how it wants the tensors laid out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from railbed.errors import ModelError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import MOST, ModelFolder
from railbed.train.worker.results.gguf.container import Setting, Unsigned

LAYER = re.compile(r"(?:model\.layers|(?:transformer\.)?h)\.(\d{1,5})\.(.+)")
SMALLEST, LARGEST = 1e-3, 1e12
"""Of the settings of rotary positions."""
Settings = dict[str, Setting]

LLAMA_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LLAMA_OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
GPT2_LAYER = {
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
GPT2_OTHERS = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"}
IGNORED = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
"""Tensors of old folders that follow from the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A type of model."""

    name: str
    """Its name in llama.cpp."""
    layer: Mapping[str, str]
    others: Mapping[str, str]
    settings: Callable[[ModelFolder, str], Settings]
    adjust: Callable[[ModelFolder, str, torch.Tensor], torch.Tensor] = lambda _folder, _name, tensor: tensor
    """Returns a tensor, by its name in GGUF, as llama.cpp wants it."""
    added: Callable[[ModelFolder], Mapping[str, torch.Tensor]] = lambda _folder: {}
    """Returns tensors that the folder has as settings."""

    def rename(self, name: str) -> str | None:
        """Return the name of a tensor in GGUF; None if it is not needed there."""
        if name.endswith(IGNORED):
            return None
        module, _, kind = name.rpartition(".")
        layer = LAYER.fullmatch(module)
        own = self.layer.get(layer[2]) if layer else self.others.get(module.removeprefix("transformer."))
        if own is None or kind not in {"weight", "bias"}:
            raise ModelError(f"the tensor {name[:100]} has no place in a GGUF file of type {self.name}")
        return f"blk.{int(layer[1])}.{own}.{kind}" if layer else f"{own}.{kind}"


def architecture_of(folder: ModelFolder) -> Architecture:
    """Return the type of a model; raise ModelError if it cannot be written as GGUF."""
    known = ARCHITECTURES.get(folder.kind)
    if known is None:
        names = ", ".join(ARCHITECTURES)
        raise ModelError(f"a model of type {folder.kind!r} cannot be written as GGUF; supported are {names}")
    for key in ("quantization_config",):
        if folder.config.get(key):
            raise ModelError(f"{folder.path} is quantised already ({key}), and cannot be written as GGUF")
    return known


def _gpt2_settings(folder: ModelFolder, name: str) -> Settings:
    if folder.config.get("activation_function", "gelu_new") not in ("gelu_new", "gelu_pytorch_tanh"):
        raise ModelError(f"{folder.path / CONFIG}: llama.cpp has GPT-2 with the activation gelu_new only")
    width = folder.count("n_embd")
    return {
        f"{name}.block_count": Unsigned(folder.count("n_layer")),
        f"{name}.context_length": Unsigned(folder.count("n_ctx", "n_positions")),
        f"{name}.embedding_length": Unsigned(width),
        f"{name}.feed_forward_length": Unsigned(folder.count("n_inner") if folder.config.get("n_inner") else 4 * width),
        f"{name}.attention.head_count": Unsigned(folder.count("n_head")),
        f"{name}.attention.layer_norm_epsilon": folder.number("layer_norm_epsilon", 1e-5),
    }


def _gpt2_adjust(_folder: ModelFolder, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Transpose the matrices of the layers, which transformers stores as [in, out]."""
    return tensor.T.contiguous() if name.startswith("blk.") and tensor.dim() == 2 else tensor


def _llama_settings(folder: ModelFolder, name: str) -> Settings:
    if folder.config.get("hidden_act", "silu") != "silu":
        raise ModelError(f"{folder.path / CONFIG}: llama.cpp has models of type {name} with the activation silu only")
    heads = folder.count("num_attention_heads")
    size = _head_size(folder)
    settings: Settings = {
        f"{name}.block_count": Unsigned(folder.count("num_hidden_layers")),
        f"{name}.context_length": Unsigned(folder.count("max_position_embeddings")),
        f"{name}.embedding_length": Unsigned(folder.count("hidden_size")),
        f"{name}.feed_forward_length": Unsigned(folder.count("intermediate_size")),
        f"{name}.attention.head_count": Unsigned(heads),
        f"{name}.attention.head_count_kv": Unsigned(_kv_heads(folder)),
        f"{name}.attention.layer_norm_rms_epsilon": folder.number("rms_norm_eps", 1e-6),
        f"{name}.attention.key_length": Unsigned(size),
        f"{name}.attention.value_length": Unsigned(size),
        f"{name}.rope.dimension_count": Unsigned(size),
        f"{name}.rope.freq_base": float(_rope(folder)["rope_theta"]),
        f"{name}.vocab_size": Unsigned(folder.count("vocab_size")),
    }
    return settings | _scaled_rope(folder, name)


def _scaled_rope(folder: ModelFolder, name: str) -> Settings:
    rope = _rope(folder)
    kind = str(rope.get("rope_type", rope.get("type", "default")))
    if kind in {"default", "llama3"}:  # the latter is a tensor in GGUF
        return {}
    if kind not in {"linear", "yarn"}:
        raise ModelError(f"{folder.path / CONFIG}: rotary positions of type {kind[:40]!r} have no place in GGUF")
    settings: Settings = {f"{name}.rope.scaling.type": kind, f"{name}.rope.scaling.factor": _factor(folder, rope)}
    if "original_max_position_embeddings" in rope:
        original = _factor(folder, rope, "original_max_position_embeddings")
        settings[f"{name}.rope.scaling.original_context_length"] = Unsigned(min(int(original), MOST))
    return settings


def _rope(folder: ModelFolder) -> Mapping[str, Any]:
    """Return the settings of the rotary positions, which older versions of transformers stored in two places."""
    own = folder.config.get("rope_parameters") or folder.config.get("rope_scaling") or {}
    if not isinstance(own, dict):
        raise ModelError(f"{folder.path / CONFIG}: the settings of the rotary positions are not an object")
    rope = {"rope_theta": folder.config.get("rope_theta", 10_000.0), **own}
    return {**rope, "rope_theta": _factor(folder, rope, "rope_theta")}


def _factor(folder: ModelFolder, rope: Mapping[str, Any], key: str = "factor", default: float = 0.0) -> float:
    value = rope.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST <= value <= LARGEST:
        raise ModelError(f"{folder.path / CONFIG}: {key} of the rotary positions is not a positive number")
    return float(value)


def _llama3_frequencies(folder: ModelFolder) -> Mapping[str, torch.Tensor]:
    """Return the factors by which Llama 3 slows down its lower frequencies, which GGUF has as a tensor."""
    rope = _rope(folder)
    if rope.get("rope_type", rope.get("type")) != "llama3":
        return {}
    size, base = _head_size(folder), float(rope["rope_theta"])
    factor, low = _factor(folder, rope), _factor(folder, rope, "low_freq_factor", 1.0)
    high = _factor(folder, rope, "high_freq_factor", 4.0)
    original = _factor(folder, rope, "original_max_position_embeddings", 8192)
    if high <= low:
        raise ModelError(
            f"{folder.path / CONFIG}: high_freq_factor of the rotary positions is not above low_freq_factor"
        )
    waves = [2 * math.pi * base ** (index / size) for index in range(0, size, 2)]
    smooth = [(original / wave - low) / (high - low) for wave in waves]
    factors = [1 / (min(1.0, max(0.0, share)) * (1 - 1 / factor) + 1 / factor) for share in smooth]
    return {"rope_freqs.weight": torch.tensor(factors)}


def _llama_adjust(folder: ModelFolder, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Reorder the rows of queries and keys: llama.cpp rotates neighbours, transformers the halves of a head."""
    if ".attn_q." in name:
        return _interleaved(tensor, folder.count("num_attention_heads"))
    return _interleaved(tensor, _kv_heads(folder)) if ".attn_k." in name else tensor


def _interleaved(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    if tensor.shape[0] % (2 * heads):
        raise ModelError(f"a matrix with {tensor.shape[0]} rows cannot be divided into {heads} heads")
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape).contiguous()


def _kv_heads(folder: ModelFolder) -> int:
    return folder.count("num_key_value_heads", "num_attention_heads")


def _head_size(folder: ModelFolder) -> int:
    if folder.config.get("head_dim"):
        return folder.count("head_dim")
    return folder.count("hidden_size") // folder.count("num_attention_heads")


_LLAMA = Architecture(
    name="llama",
    layer=LLAMA_LAYER,
    others=LLAMA_OTHERS,
    settings=_llama_settings,
    adjust=_llama_adjust,
    added=_llama3_frequencies,
)
ARCHITECTURES: Mapping[str, Architecture] = {
    "gpt2": Architecture(
        name="gpt2", layer=GPT2_LAYER, others=GPT2_OTHERS, settings=_gpt2_settings, adjust=_gpt2_adjust
    ),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": Architecture(name="qwen2", layer=LLAMA_LAYER, others=LLAMA_OTHERS, settings=_llama_settings),
    "qwen3": Architecture(name="qwen3", layer=LLAMA_LAYER, others=LLAMA_OTHERS, settings=_llama_settings),
}
"""Types of models by their `model_type`."""
