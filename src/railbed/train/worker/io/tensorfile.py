"""Tensors in a file, in the format of safetensors: a length, a JSON header, and the bytes.

Not written by the library, because the bytes are hashed and synced as they are written, and because a node
needs nothing but torch. A test reads these files with the library, and vice versa.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from railbed.errors import CheckpointDamaged
from railbed.train.state.checkpoints import Written

NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
}
TYPES = {name: dtype for dtype, name in NAMES.items()}
ALIGNMENT = 8
PIECE = 8 << 20


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> Written:
    """Write tensors (contiguous, in main memory) to a new file, down to the disk; return its hash and size."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    digest, size = hashlib.sha256(), 0
    with path.open("xb", buffering=0) as file:
        for piece in _pieces(struct.pack("<Q", len(text)) + text, tensors):
            digest.update(piece)
            done = 0
            while done < len(piece):
                done += file.write(piece[done:])
            size += len(piece)
        os.fsync(file.fileno())
    return Written(digest.hexdigest(), size)


def _pieces(head: bytes, tensors: Mapping[str, torch.Tensor]) -> Iterator[memoryview]:
    yield memoryview(head)
    for tensor in tensors.values():
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
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        (length,) = struct.unpack("<Q", mapped[:8])
        header = json.loads(mapped[8 : 8 + length])
        if not isinstance(header, dict):
            raise TypeError("its header is not a JSON object")
        metadata = header.pop("__metadata__", {})
        tensors = {name: _tensor(mapped, 8 + length, entry) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, struct.error, RuntimeError) as error:
        raise CheckpointDamaged(f"{path} cannot be read: {error}") from None
    return tensors, metadata if isinstance(metadata, dict) else {}


def _tensor(mapped: mmap.mmap, base: int, entry: dict[str, Any]) -> torch.Tensor:
    start, end = entry["data_offsets"]
    dtype, shape = TYPES[entry["dtype"]], entry["shape"]
    # Checked before anything is allocated: a few bytes may request a terabyte.
    if not all(type(number) is int and number >= 0 for number in (start, end, *shape)):
        raise ValueError("the offsets of a tensor are not whole numbers")
    if start > end or base + end > len(mapped) or math.prod(shape) * dtype.itemsize != end - start:
        raise ValueError("the offsets of a tensor do not match its size")
    if start == end:
        return torch.empty(shape, dtype=dtype)
    count = (end - start) // dtype.itemsize
    return torch.frombuffer(mapped, dtype=dtype, count=count, offset=base + start).view(shape)
