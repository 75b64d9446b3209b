"""Tensors in a file, in the format of safetensors: a length, a JSON header, and the bytes.

Not written by the library, because the bytes are hashed and synced as they are written, and because a node
needs nothing but torch. A test reads these files with the library, and vice versa.

The weights of a model's folder: one file of tensors, or several with an index. Files of pickles are not opened.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from railbed.errors import CheckpointDamaged, ModelError
from railbed.train.base.files import read_json
from railbed.train.base.folder import INDEX, INDEX_BYTES
from railbed.train.state.checkpoints import Written, write_pieces

NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
TYPES = {name: dtype for dtype, name in NAMES.items()}
ALIGNMENT = 8
PIECE = 8 << 20
HEADER_BYTES = 100_000_000
"""The most that a header may have, as in the library."""


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """The type and shape of a tensor in a file."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorLayout:
        """Return the layout of a tensor in memory."""
        return cls(tensor.dtype, tuple(tensor.shape))

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> Written:
    """Write tensors (contiguous, in main memory) to a new file, down to the disk; return its hash and size."""
    layouts = {name: TensorLayout.of(tensor) for name, tensor in tensors.items()}
    return write_each(path, layouts, tensors.__getitem__, metadata)


def write_each(
    path: Path,
    layouts: Mapping[str, TensorLayout],
    tensor_of: Callable[[str], torch.Tensor],
    metadata: Mapping[str, str],
) -> Written:
    """Write tensors to a new file, down to the disk, each made when it is its turn; return its hash and size."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, layout in layouts.items():
        end = offset + layout.size
        header[name] = {"dtype": NAMES[layout.dtype], "shape": list(layout.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return write_pieces(path, _pieces(struct.pack("<Q", len(text)) + text, layouts, tensor_of))


def _pieces(
    head: bytes, layouts: Mapping[str, TensorLayout], tensor_of: Callable[[str], torch.Tensor]
) -> Iterator[memoryview]:
    yield memoryview(head)
    for name, layout in layouts.items():
        tensor = tensor_of(name)
        if TensorLayout.of(tensor) != layout:
            raise ValueError(f"{name} has another type or shape than announced")
        view = bytes_of(tensor)
        yield from (view[start : start + PIECE] for start in range(0, len(view), PIECE))


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a tensor, without numpy."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError("the tensor must be contiguous and in main memory")
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors of a file, as views of a private mapping of it, and its metadata."""
    file = TensorFile(path)
    return {name: file[name] for name in file.layouts}, file.metadata


class TensorFile:
    """A file of tensors, mapped into memory: a tensor is read from the disk when it is used."""

    def __init__(self, path: Path) -> None:
        """Read the header; raise CheckpointDamaged unless it describes the file, byte by byte."""
        self.layouts: dict[str, TensorLayout] = {}
        self.metadata: dict[str, str] = {}
        self._starts: dict[str, int] = {}
        try:
            with path.open("rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._read_header()
        except (OSError, ValueError, KeyError, TypeError, struct.error, RuntimeError) as error:
            raise CheckpointDamaged(f"{path} cannot be read: {error}") from None

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor as a view of the file."""
        layout = self.layouts[name]
        if not layout.size:
            return torch.empty(layout.shape, dtype=layout.dtype)
        count, offset = math.prod(layout.shape), self._starts[name]
        return torch.frombuffer(self._mapped, dtype=layout.dtype, count=count, offset=offset).view(layout.shape)

    def _read_header(self) -> None:
        (length,) = struct.unpack("<Q", self._mapped[:8])
        if length > min(HEADER_BYTES, len(self._mapped) - 8):
            raise ValueError("its header is longer than the file, or than a header can be")
        header = json.loads(self._mapped[8 : 8 + length])
        if not isinstance(header, dict):
            raise TypeError("its header is not a JSON object")
        metadata = header.pop("__metadata__", {})
        self.metadata = metadata if isinstance(metadata, dict) else {}
        base, spans = 8 + length, [(0, 0)]
        for name, entry in header.items():
            layout, start, end = _entry(entry)
            spans.append((start, end))
            self.layouts[name], self._starts[name] = layout, base + start
        spans.sort()
        gaps = any(end != start for (_, end), (start, _) in pairwise(spans))
        if gaps or base + max(end for _, end in spans) != len(self._mapped):
            raise ValueError("its tensors overlap, leave gaps, or do not fill the file")


def _entry(entry: dict[str, Any]) -> tuple[TensorLayout, int, int]:
    """Return the layout of a tensor and where its bytes are; checked before anything is allocated."""
    start, end = entry["data_offsets"]
    dtype, shape = TYPES.get(entry["dtype"]), entry["shape"]
    if dtype is None:
        raise ValueError(f"its tensors have a type that is not supported: {str(entry['dtype'])[:20]}")
    if not all(type(number) is int and number >= 0 for number in (start, end, *shape)):
        raise ValueError("the offsets of a tensor are not whole numbers")
    layout = TensorLayout(dtype, tuple(shape))
    if layout.size != end - start:
        raise ValueError("the offsets of a tensor do not match its size")
    return layout, start, end


SINGLE = "model.safetensors"
FILE_NAME = re.compile(r"[\w-][\w.-]{0,200}\.safetensors", re.ASCII)


class Weights(Mapping[str, torch.Tensor]):
    """The tensors of a folder by name, each read from the disk when it is used."""

    def __init__(self, folder: Path) -> None:
        """Open the files and read their headers; raise ModelError if something is missing or damaged."""
        self._homes: dict[str, TensorFile] = {}
        for file, names in _files(folder).items():
            opened = open_tensors(folder / file)
            missing = next((name for name in names or () if name not in opened.layouts), None)
            if missing:
                raise ModelError(f"{folder / file} does not have {missing[:100]}, which {INDEX} lists")
            self._homes |= dict.fromkeys(names or opened.layouts, opened)

    @property
    def layouts(self) -> dict[str, TensorLayout]:
        """Return types and shapes, without reading tensors."""
        return {name: home.layouts[name] for name, home in self._homes.items()}

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._homes[name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


def _files(folder: Path) -> Mapping[str, list[str] | None]:
    """Return the files, and the tensors that are used of each; None means all."""
    if (folder / SINGLE).is_file():
        return {SINGLE: None}
    if not (folder / INDEX).is_file():
        raise ModelError(
            f"{folder} has no weights: neither {SINGLE} nor {INDEX}",
            hint="files of pickles (pytorch_model.bin) are not opened, since they can run any code: convert them first",
        )
    homes = read_json(folder / INDEX, INDEX_BYTES).get("weight_map")
    files: dict[str, list[str]] = {}
    for name, file in homes.items() if isinstance(homes, dict) else ():
        if not isinstance(file, str) or not FILE_NAME.fullmatch(file):
            raise ModelError(f"{folder / INDEX} names a file outside of its folder, or of another kind")
        files.setdefault(file, []).append(name)
    if not files:
        raise ModelError(f"{folder / INDEX} is damaged: it has no weight_map")
    return files


def open_tensors(path: Path) -> TensorFile:
    """Open a file of tensors; raise ModelError if it is missing or damaged."""
    if not path.is_file():
        raise ModelError(f"there is no {path}")
    try:
        return TensorFile(path)
    except CheckpointDamaged as error:
        raise ModelError(error.message, hint="copy it again") from None
