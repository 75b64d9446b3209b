"""Rotary positions: the settings of transformers, and what GGUF has in their place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from railbed.errors import ModelError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import MOST, ModelFolder
from railbed.train.worker.results.gguf.container import Setting, Unsigned

SMALLEST, LARGEST = 1e-3, 1e12
"""Of the settings of rotary positions."""
THETA = 10_000.0
Rope = Mapping[str, Any]


def rope_of(folder: ModelFolder, part: str | None = None) -> Rope:
    """Return the settings, which older versions of transformers stored in two places.

    Some models have settings for each type of layer; `part` is that type.
    """
    own = folder.config.get("rope_parameters") or folder.config.get("rope_scaling") or {}
    if isinstance(own, dict) and part and isinstance(own.get(part), dict):
        own = own[part]
    if not isinstance(own, dict):
        raise ModelError(f"{folder.path / CONFIG}: the settings of the rotary positions are not an object")
    return {"rope_theta": folder.config.get("rope_theta", THETA), **own}


def rope_kind(rope: Rope) -> str:
    """Return the type of the rotary positions."""
    return str(rope.get("rope_type", rope.get("type", "default")))


def theta_of(folder: ModelFolder, rope: Rope) -> float:
    """Return the base of the frequencies."""
    return rope_number(folder, rope, "rope_theta")


def rope_number(folder: ModelFolder, rope: Rope, key: str = "factor", default: float = 0.0) -> float:
    """Return a setting that is a positive number."""
    value = rope.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST <= value <= LARGEST:
        raise ModelError(f"{folder.path / CONFIG}: {key} of the rotary positions is not a positive number")
    return float(value)


def scaled_rope(folder: ModelFolder, name: str, part: str | None = None) -> dict[str, Setting]:
    """Return the settings of scaled positions; raise ModelError if GGUF has no place for their type."""
    rope = rope_of(folder, part)
    kind = rope_kind(rope)
    if kind in {"default", "llama3"}:  # the latter is a tensor in GGUF
        return {}
    if kind not in {"linear", "yarn"}:
        raise no_place(folder, kind)
    settings: dict[str, Setting] = {
        f"{name}.rope.scaling.type": kind,
        f"{name}.rope.scaling.factor": rope_number(folder, rope),
    }
    if "original_max_position_embeddings" in rope:
        original = rope_number(folder, rope, "original_max_position_embeddings")
        settings[f"{name}.rope.scaling.original_context_length"] = Unsigned(min(int(original), MOST))
    return settings


def no_place(folder: ModelFolder, kind: str) -> ModelError:
    """Return the error for a type of rotary positions that cannot be written."""
    return ModelError(f"{folder.path / CONFIG}: rotary positions of type {kind[:40]!r} have no place in GGUF")


def llama3_frequencies(folder: ModelFolder, size: int) -> Mapping[str, torch.Tensor]:
    """Return the factors by which Llama 3 slows down its lower frequencies, which GGUF has as a tensor."""
    rope = rope_of(folder)
    if rope_kind(rope) != "llama3":
        return {}
    base = theta_of(folder, rope)
    factor, low = rope_number(folder, rope), rope_number(folder, rope, "low_freq_factor", 1.0)
    high = rope_number(folder, rope, "high_freq_factor", 4.0)
    original = rope_number(folder, rope, "original_max_position_embeddings", 8192)
    if high <= low:
        raise ModelError(
            f"{folder.path / CONFIG}: high_freq_factor of the rotary positions is not above low_freq_factor"
        )
    waves = [2 * math.pi * base ** (index / size) for index in range(0, size, 2)]
    smooth = [(original / wave - low) / (high - low) for wave in waves]
    factors = [1 / (min(1.0, max(0.0, share)) * (1 - 1 / factor) + 1 / factor) for share in smooth]
    return {"rope_freqs.weight": torch.tensor(factors)}
