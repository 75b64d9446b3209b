"""The weights of a model with its adapter merged into it, made tensor by tensor.

The adapter was trained against the weights as they were computed with: rounded to 4 or 8 bits, if the model was
quantised. Only added to exactly those does it give the model that was trained, so every matrix goes through the same
rounding first, also those without an adapter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from railbed.errors import ModelError
from railbed.train.base.folder import ModelFolder
from railbed.train.results.adapter import AdapterFolder
from railbed.train.worker.io.tensorfile import TensorLayout
from railbed.train.worker.io.weights import Weights
from railbed.train.worker.results.lora import Lora
from railbed.train.worker.results.quantised import as_trained


class MergedWeights(Mapping[str, torch.Tensor]):
    """The tensors of a model after fine-tuning, each made when it is used."""

    def __init__(
        self, adapter: AdapterFolder, folder: ModelFolder, device: torch.device, dtype: torch.dtype | None = None
    ) -> None:
        """Read the headers of both; raise ModelError if they do not fit. `dtype` replaces the type of the weights."""
        self._base, self._folder, self._device, self._dtype = adapter.base, folder, device, dtype
        self._weights, self._lora = Weights(folder.path), Lora(adapter)
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
