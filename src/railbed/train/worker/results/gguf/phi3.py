"""Phi-3: queries, keys and values are one matrix, gate and up another, in llama.cpp as in transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from railbed.errors import ModelError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import MOST, ModelFolder
from railbed.train.worker.results.gguf.architecture import (
    Architecture,
    Settings,
    head_size,
    require_activation,
    shared_settings,
)
from railbed.train.worker.results.gguf.container import Unsigned
from railbed.train.worker.results.gguf.llama import window_difference
from railbed.train.worker.results.gguf.rotary import Rope, no_place, rope_kind, rope_number, rope_of

LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LENGTHS = ("long", "short")
LONG = ("longrope", "su", "yarn")
"""Names of the same positions for long texts, which early folders have."""


def _settings(folder: ModelFolder, name: str) -> Settings:
    require_activation(folder, name, ("hidden_act",), ("silu",))
    window = folder.config.get("sliding_window")
    settings = shared_settings(folder, name) | {
        f"{name}.attention.sliding_window": Unsigned(folder.count("sliding_window") if window else 0),
        f"{name}.rope.dimension_count": Unsigned(_rotated(folder)),
        f"{name}.rope.scaling.original_context_length": Unsigned(_original(folder)),
    }
    if _is_long(folder):
        settings[f"{name}.rope.scaling.attn_factor"] = _attention_factor(folder)
    return settings


def _is_long(folder: ModelFolder) -> bool:
    """Return whether frequencies depend on the length of the text."""
    kind = rope_kind(rope_of(folder))
    if kind not in {"default", *LONG}:
        raise no_place(folder, kind)
    return kind in LONG


def _rotated(folder: ModelFolder) -> int:
    """Return how many of the values of a head are rotated."""
    share = {"partial_rotary_factor": folder.config.get("partial_rotary_factor", 1.0), **rope_of(folder)}
    return min(int(head_size(folder) * rope_number(folder, share, "partial_rotary_factor")), MOST)


def _original(folder: ModelFolder) -> int:
    """Return the length up to which the frequencies for short texts hold."""
    rope = rope_of(folder)
    if "original_max_position_embeddings" in rope:
        return min(int(rope_number(folder, rope, "original_max_position_embeddings")), MOST)
    return folder.count("original_max_position_embeddings", "max_position_embeddings")


def _attention_factor(folder: ModelFolder) -> float:
    """Return the factor of queries and keys, which grows with the longest text that the model was made for."""
    rope = rope_of(folder)
    if rope.get("attention_factor") is not None:
        return rope_number(folder, rope, "attention_factor")
    original = _original(folder)
    growth = folder.count("max_position_embeddings") / original
    return math.sqrt(1 + math.log(growth) / math.log(original)) if growth > 1 and original > 1 else 1.0


def _factors(folder: ModelFolder) -> Mapping[str, torch.Tensor]:
    """Return the factors of the frequencies for long and short texts, which GGUF has as tensors."""
    if not _is_long(folder):
        return {}
    rope = rope_of(folder)
    return {f"rope_factors_{kind}.weight": torch.tensor(_listed(folder, rope, f"{kind}_factor")) for kind in LENGTHS}


def _listed(folder: ModelFolder, rope: Rope, key: str) -> list[float]:
    values = rope.get(key)
    if not isinstance(values, list) or len(values) != _rotated(folder) // 2:
        raise ModelError(f"{folder.path / CONFIG}: {key} of the rotary positions is not a list for all frequencies")
    return [rope_number(folder, {key: value}, key) for value in values]


def _differences(folder: ModelFolder) -> Sequence[str]:
    sentences = list(window_difference(folder))
    if _is_long(folder):
        sentences.append(
            "llama.cpp chooses the rotary positions by its context size (--ctx-size), transformers by the length of a "
            f"text: for texts of up to {_original(folder)} tokens, start it with a context of that size at most"
        )
    return sentences


PHI3 = Architecture(name="phi3", layer=LAYER, settings=_settings, added=_factors, differences=_differences)
