"""Which layers get adapters, and how many parameters those have: from the shapes of the weights, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from railbed.errors import ModelError
from railbed.train.base.files import TensorShape
from railbed.train.base.folder import ModelFolder


def target_names(folder: ModelFolder, wanted: Literal["auto"] | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the modules that get adapters; `auto`: every matrix in the model's layers."""
    matrices = {name: tensor for weight, tensor in folder.tensors.items() if (name := _module(weight, tensor))}
    if wanted == "auto":
        if not matrices:
            raise ModelError(f"the layers of the {folder.architecture} in {folder.path} have no matrices to adapt")
        return tuple(sorted(matrices))
    if unknown := [name for name in wanted if name not in matrices]:
        raise ModelError(
            f"model.lora.targets names {unknown[0]}, which is not a matrix in the layers of {folder.path}",
            hint=f"it has {', '.join(sorted(matrices))}",
        )
    return tuple(sorted(set(wanted)))


def adapter_parameters(folder: ModelFolder, targets: Sequence[str], rank: int, *, dora: bool) -> int:
    """Return the number of parameters of all adapters; DoRA adds the length of every row."""
    total = 0
    for weight, tensor in folder.tensors.items():
        if _module(weight, tensor) in targets:
            total += rank * sum(tensor.shape)
            if dora:
                total += tensor.shape[1 if folder.is_transposed else 0]
    return total


def layer_matrices(folder: ModelFolder) -> int:
    """Return the number of values in all matrices of the layers: what is quantised."""
    return sum(tensor.values for name, tensor in folder.tensors.items() if _module(name, tensor))


def _module(weight: str, tensor: TensorShape) -> str | None:
    """Return the own name of the module that a matrix in a numbered layer belongs to: `layers.0.mlp.up_proj.weight`."""
    *above, name, kind = ("", "", *weight.split("."))
    is_in_layer = kind == "weight" and any(part.isdecimal() for part in above)
    return name if is_in_layer and len(tensor.shape) == 2 and not name.isdecimal() else None
