"""Converts a model's folder to a GGUF file, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from railbed.errors import ModelError
from railbed.train.base.folder import ModelFolder
from railbed.train.state.checkpoints import Written
from railbed.train.worker.io.tensorfile import TensorLayout, bytes_of
from railbed.train.worker.results.gguf.architecture import GgufArchitecture
from railbed.train.worker.results.gguf.architectures import architecture_of
from railbed.train.worker.results.gguf.container import (
    BF16,
    BLOCK,
    F16,
    F32,
    NUMBER_TYPES,
    Q8_0,
    NumberType,
    Setting,
    TensorPlan,
    Unsigned,
    encode_numbers,
    write_gguf,
)
from railbed.train.worker.results.gguf.tokenizerfile import TokenizerFile
from railbed.train.worker.results.gguf.vocabulary import name_in_file, vocabulary_differences, vocabulary_settings

QUANTISATION_VERSION = 2
EXACT = ("position_embd.weight", "rope_freqs.weight")
"""Matrices that llama.cpp wants in fp32."""
Report = Callable[[int, int], None]
"""Called with the number of tensors that are written, and of all."""


def convert(
    folder: ModelFolder,
    tokenizer: Path,
    tensors: Mapping[str, torch.Tensor],
    layouts: Mapping[str, TensorLayout],
    file: Path,
    *,
    number_type: str,
    name: str,
    report: Report = lambda _done, _all: None,
) -> Written:
    """Write the model to a new file; raise ModelError if its type or its tokenizer is not supported."""
    architecture = architecture_of(folder)
    tokens = TokenizerFile.open(tokenizer)
    kind = _number_type(number_type, layouts)
    added = architecture.added(folder)
    homes = _homes(architecture, layouts)
    plans = {own: _plan(architecture, own, layouts[home], kind) for own, home in homes.items()}
    plans |= {own: TensorPlan(F32, tuple(tensor.shape)) for own, tensor in added.items()}
    settings: dict[str, Setting] = {
        "general.architecture": architecture.name,
        "general.type": "model",
        "general.name": name_in_file(tokens, name),
        "general.file_type": Unsigned(kind.file_type),
        "general.quantization_version": Unsigned(QUANTISATION_VERSION),
        **architecture.settings(folder, architecture.name),
        **vocabulary_settings(tokens, folder.count("vocab_size"), folder.ends),
    }
    done = 0

    def data(own: str) -> memoryview:
        nonlocal done
        report(done, len(plans))
        done += 1
        tensor = added[own] if own in added else architecture.adjust(folder, own, tensors[homes[own]])
        made = encode_numbers(tensor, plans[own].number_type)
        # The memory must outlive the view, which holds only its address.
        alive[:] = [made]
        return bytes_of(made)

    alive: list[torch.Tensor] = []
    return write_gguf(file, settings, plans, data)


def differences(folder: ModelFolder, tokenizer: Path) -> list[str]:
    """Return sentences about what llama.cpp does differently with this model than transformers."""
    return [*architecture_of(folder).differences(folder), *vocabulary_differences(TokenizerFile.open(tokenizer))]


def _number_type(name: str, layouts: Mapping[str, TensorLayout]) -> NumberType:
    """Return the type of the matrices; `auto` keeps 16 bits as they are, and makes fp16 of everything else."""
    if name != "auto":
        return NUMBER_TYPES[name]
    return BF16 if any(layout.dtype == torch.bfloat16 for layout in layouts.values()) else F16


def _homes(architecture: GgufArchitecture, layouts: Mapping[str, TensorLayout]) -> dict[str, str]:
    """Return the tensors of the file, and the tensors of the folder that they come from."""
    homes: dict[str, str] = {}
    for name in layouts:
        own = architecture.rename(name)
        if own in homes:
            raise ModelError(f"the tensors {homes[own][:100]} and {name[:100]} have the same place in a GGUF file")
        if own is not None:
            homes[own] = name
    return homes


def _plan(architecture: GgufArchitecture, own: str, layout: TensorLayout, kind: NumberType) -> TensorPlan:
    is_matrix = len(layout.shape) == 2
    flipped = architecture.name == "gpt2" and is_matrix and own.startswith("blk.")
    shape = layout.shape[::-1] if flipped else layout.shape
    if not is_matrix or own in EXACT:
        return TensorPlan(F32, shape)
    return TensorPlan(F16 if kind is Q8_0 and shape[-1] % BLOCK else kind, shape)
