"""The weights of a LoRA adapter, and what they change: plain, rank-stabilised, and with magnitudes (DoRA)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from railbed.errors import ModelError
from railbed.train.base.adapter import CONFIG, WEIGHTS
from railbed.train.results.adapter import AdapterFolder
from railbed.train.worker.io.tensorfile import TensorFile
from railbed.train.worker.io.weights import open_tensors

PREFIX = "base_model.model."
PARTS = {
    "lora_A.weight": "a",
    "lora_B.weight": "b",
    "lora_magnitude_vector": "magnitude",
    "lora_magnitude_vector.weight": "magnitude",
    "lora_embedding_A": "a",
    "lora_embedding_B": "b",
}
"""Ends of the names of an adapter's tensors."""
EMBEDDING = "lora_embedding_"
PLAIN_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one matrix: W + scale · B · A, with DoRA every row scaled to its magnitude."""

    names: Mapping[str, str]
    """Names of the tensors `a`, `b` and perhaps `magnitude` in the adapter's file."""
    scale: float
    is_embedding: bool

    def apply(self, weight: torch.Tensor, tensors: TensorFile, *, transposed: bool) -> torch.Tensor:
        """Return the changed matrix, in fp32; `transposed` matrices are stored as [in, out]."""
        a, b = tensors[self.names["a"]].float(), tensors[self.names["b"]].float()
        flipped = transposed or self.is_embedding
        matrix = weight.T if flipped else weight
        if a.dim() != 2 or b.dim() != 2 or (b.shape[0], a.shape[1], b.shape[1]) != (*matrix.shape, a.shape[0]):
            raise ModelError(f"{self.names['b']} in {WEIGHTS} does not fit the matrix of the model")
        merged = matrix + self.scale * (b @ a)
        if "magnitude" in self.names:
            magnitude = tensors[self.names["magnitude"]].float().flatten()
            merged *= (magnitude / torch.linalg.vector_norm(merged, dim=1))[:, None]
        return (merged.T if flipped else merged).contiguous()


class Lora:
    """An adapter: changes by the name of the module, and tensors that replace those of the model."""

    def __init__(self, folder: AdapterFolder) -> None:
        """Read the header; raise ModelError for anything in it that would not be merged."""
        self.tensors = open_tensors(folder.path / WEIGHTS)
        self.replaced: dict[str, str] = {}
        """Names of tensors of the model, and those of the tensors that replace them."""
        parts: dict[str, dict[str, str]] = {}
        for name in self.tensors.layouts:
            own = name.removeprefix(PREFIX)
            end = next((end for end in PARTS if own.endswith(f".{end}")), None)
            if end:
                parts.setdefault(own.removesuffix(f".{end}"), {})[PARTS[end]] = name
            elif "lora_" in own or own == name:
                raise ModelError(f"{folder.path / WEIGHTS} has {name[:100]}, which railbed cannot merge")
            else:
                self.replaced[own] = name
        self.changes = {module: self._change(folder, module, names) for module, names in parts.items()}

    def _change(self, folder: AdapterFolder, module: str, names: Mapping[str, str]) -> Change:
        if "a" not in names or "b" not in names:
            raise ModelError(f"{folder.path / WEIGHTS} is incomplete: {module[:100]} lacks one of its matrices")
        if folder.config.get("use_dora") and "magnitude" not in names and EMBEDDING not in names["a"]:
            raise ModelError(f"{folder.path / WEIGHTS} is incomplete: {module[:100]} lacks its magnitudes")
        rank = max(1, self.tensors.layouts[names["a"]].shape[0])
        alpha = _setting(folder, "lora_alpha", "alpha_pattern", module)
        scale = alpha / (math.sqrt(rank) if folder.config.get("use_rslora") else rank)
        return Change(names, scale, EMBEDDING in names["a"])


def _setting(folder: AdapterFolder, key: str, pattern: str, module: str) -> float:
    """Return a number of the configuration, which may differ for some modules."""
    exceptions: Any = folder.config.get(pattern) or {}
    if not isinstance(exceptions, dict) or not all(PLAIN_NAME.fullmatch(str(name)) for name in exceptions):
        raise ModelError(f"{folder.path / CONFIG}: {pattern} has something other than names of modules")
    own = [value for name, value in exceptions.items() if module == name or module.endswith(f".{name}")]
    value = own[0] if own else folder.config.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{folder.path / CONFIG}: {key} is not a number: {str(value)[:40]}")
    return float(value)
