"""The weights of a model with its adapter merged into it, made tensor by tensor.

The adapter was trained against the weights as they were computed with: rounded to 4 or 8 bits, if the model was
quantised. Only added to exactly those does it give the model that was trained, so every matrix goes through the same
rounding first, also those without an adapter.

Adapters are plain, rank-stabilised, or have magnitudes (DoRA). The library that training uses does the rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from railbed.errors import ModelError
from railbed.train.base.adapter import CONFIG, WEIGHTS
from railbed.train.base.folder import ModelFolder
from railbed.train.results.adapter import AdapterFolder, Base
from railbed.train.worker.io.tensorfile import TensorFile, TensorLayout, Weights, open_tensors
from railbed.train.worker.results.serve import library

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
class LoraChange:
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


class LoraWeights:
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

    def _change(self, folder: AdapterFolder, module: str, names: Mapping[str, str]) -> LoraChange:
        if "a" not in names or "b" not in names:
            raise ModelError(f"{folder.path / WEIGHTS} is incomplete: {module[:100]} lacks one of its matrices")
        if folder.config.get("use_dora") and "magnitude" not in names and EMBEDDING not in names["a"]:
            raise ModelError(f"{folder.path / WEIGHTS} is incomplete: {module[:100]} lacks its magnitudes")
        rank = max(1, self.tensors.layouts[names["a"]].shape[0])
        alpha = _setting(folder, "lora_alpha", "alpha_pattern", module)
        scale = alpha / (math.sqrt(rank) if folder.config.get("use_rslora") else rank)
        return LoraChange(names, scale, EMBEDDING in names["a"])


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


NF4_BLOCK = 64
"""Values that share a scale."""


def as_trained(weight: torch.Tensor, base: Base, device: torch.device) -> torch.Tensor:
    """Return a matrix [out, in] with the values that it had during training, in fp32 and main memory."""
    weight = weight.to(device=device, dtype=getattr(torch, base.compute_dtype)).contiguous()
    if base.quantisation == "nf4":
        weight = _through_nf4(weight, double=base.double)
    elif base.quantisation == "int8":
        weight = _through_int8(weight)
    return weight.float().cpu()


def _through_nf4(weight: torch.Tensor, *, double: bool) -> torch.Tensor:
    functional = library("bitsandbytes.functional")
    codes, state = functional.quantize_4bit(weight, blocksize=NF4_BLOCK, compress_statistics=double, quant_type="nf4")
    values: torch.Tensor = functional.dequantize_4bit(codes, state)
    return values


def _through_int8(weight: torch.Tensor) -> torch.Tensor:
    """One scale for each row; the library quantises from fp16."""
    functional: Any = library("bitsandbytes.functional")
    codes, scales, _ = functional.int8_vectorwise_quant(weight.to(torch.float16))
    values: torch.Tensor = functional.int8_vectorwise_dequant(codes, scales)
    return values


class MergedWeights(Mapping[str, torch.Tensor]):
    """The tensors of a model after fine-tuning, each made when it is used."""

    def __init__(
        self, adapter: AdapterFolder, folder: ModelFolder, device: torch.device, dtype: torch.dtype | None = None
    ) -> None:
        """Read the headers of both; raise ModelError if they do not fit. `dtype` replaces the type of the weights."""
        self._base, self._folder, self._device, self._dtype = adapter.base, folder, device, dtype
        self._weights, self._lora = Weights(folder.path), LoraWeights(adapter)
        self._transposed = folder.is_transposed
        self._changes = {self._find(f"{module}.weight"): change for module, change in self._lora.changes.items()}
        self._replaced = {self._find(name): own for name, own in self._lora.replaced.items()}

    @property
    def layouts(self) -> dict[str, TensorLayout]:
        """Return types and shapes, without making tensors."""
        layouts = self._weights.layouts
        return {name: TensorLayout(self._type(layout), layout.shape) for name, layout in layouts.items()}

    def __getitem__(self, name: str) -> torch.Tensor:
        layout = self._weights.layouts[name]
        wanted = self._type(layout)
        if name in self._replaced:
            tensor = self._lora.tensors[self._replaced[name]]
            if tuple(tensor.shape) != layout.shape:
                raise ModelError(f"{self._replaced[name]} of the adapter has another shape than {name} of the model")
            return tensor.to(wanted).contiguous()
        tensor = self._weights[name]
        if not tensor.dtype.is_floating_point:
            return tensor
        if is_layer_matrix(name, layout):
            tensor = self._as_trained(tensor)
        else:
            tensor = tensor.to(getattr(torch, self._base.compute_dtype)).float()
        if name in self._changes:
            tensor = self._changes[name].apply(tensor, self._lora.tensors, transposed=self._transposed)
        return tensor.to(wanted).contiguous()

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def _as_trained(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._transposed:
            return as_trained(tensor.T, self._base, self._device).T
        return as_trained(tensor, self._base, self._device)

    def _type(self, layout: TensorLayout) -> torch.dtype:
        return self._dtype if self._dtype and layout.dtype.is_floating_point else layout.dtype

    def _find(self, name: str) -> str:
        """Return the name of a tensor in the files of the model, which may lack its first part, `transformer.`"""
        short = name.partition(".")[2]
        own_name = next((own for own in (name, short) if own in self._weights), None)
        if own_name is None:
            raise ModelError(
                f"the adapter changes {name[:100]}, which the model in {self._folder.path} does not have",
                hint="is it the model that the adapter was trained for? Tied weights cannot be changed alone",
            )
        return own_name


def is_layer_matrix(name: str, layout: TensorLayout) -> bool:
    """Whether a tensor is a matrix in a numbered layer: those are quantised."""
    *above, kind = name.split(".")
    return kind == "weight" and len(layout.shape) == 2 and any(part.isdecimal() for part in above)
