"""Writes GGUF, version 3: a header with settings and the layout of the tensors, then the tensors, each aligned.

Not written by llama.cpp's own library, because that collects all tensors before it writes the first, and would have to
be installed on the nodes. The tests read these files with it.

Numbers are stored as fp32, fp16, bf16, or q8_0, which has 8 bits and a scale for every 32 values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from railbed.train.state.checkpoints import Written, write_pieces

BLOCK = 32
BLOCK_BYTES = 34
"""A scale in fp16, and 32 values of 8 bits."""


@dataclass(frozen=True, slots=True)
class NumberType:
    """A way to store numbers."""

    name: str
    code: int
    """Its number in the format."""
    file_type: int
    """The number of a file that mostly has it."""

    def size(self, count: int) -> int:
        """Return the bytes that so many values take."""
        if self is Q8_0:
            return count // BLOCK * BLOCK_BYTES
        return count * (4 if self is F32 else 2)


F32 = NumberType("f32", 0, 0)
F16 = NumberType("f16", 1, 1)
Q8_0 = NumberType("q8_0", 8, 7)
BF16 = NumberType("bf16", 30, 32)
NUMBER_TYPES = {kind.name: kind for kind in (F32, F16, BF16, Q8_0)}
TORCH = {F32: torch.float32, F16: torch.float16, BF16: torch.bfloat16}


def encode_numbers(tensor: torch.Tensor, number_type: NumberType) -> torch.Tensor:
    """Return a tensor as it is stored: contiguous, in main memory, of any type with the right bytes."""
    if number_type is Q8_0:
        return _in_blocks(tensor)
    return tensor.to(TORCH[number_type]).contiguous()


def _in_blocks(tensor: torch.Tensor) -> torch.Tensor:
    """Return the blocks of a tensor as bytes: values are rounded half away from zero, as llama.cpp does."""
    blocks = tensor.float().reshape(-1, BLOCK)
    scales = blocks.abs().amax(dim=1, keepdim=True) / 127
    inverse = torch.where(scales == 0, 0.0, 1 / scales)
    scaled = blocks * inverse
    values = (scaled.abs() + 0.5).floor().copysign(scaled).to(torch.int8)
    return torch.cat([scales.to(torch.float16).view(torch.uint8), values.view(torch.uint8)], dim=1).contiguous()


MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
PIECE = 8 << 20
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A setting that is a whole number of 32 bits."""

    value: int


@dataclass(frozen=True, slots=True)
class Signed:
    """A list of whole numbers with a sign."""

    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Reals:
    """A list of numbers of 32 bits with a fraction."""

    values: Sequence[float]


Setting = Unsigned | float | bool | str | Sequence[str] | Signed | Reals


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """The type and shape of a tensor in the file."""

    number_type: NumberType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return self.number_type.size(math.prod(self.shape))


def write_gguf(
    path: Path, settings: Mapping[str, Setting], plans: Mapping[str, TensorPlan], bytes_of: Callable[[str], memoryview]
) -> Written:
    """Write a new file, down to the disk, each tensor made when it is its turn; return its hash and size."""
    return write_pieces(path, _pieces(settings, plans, bytes_of))


def _pieces(
    settings: Mapping[str, Setting], plans: Mapping[str, TensorPlan], bytes_of: Callable[[str], memoryview]
) -> Iterator[memoryview]:
    head = MAGIC + struct.pack("<IQQ", VERSION, len(plans), len(settings))
    head += b"".join(_string(key) + _value(value) for key, value in settings.items())
    offset = 0
    layouts = []
    for name, plan in plans.items():
        dimensions = plan.shape[::-1]  # the fastest first
        numbers = struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, plan.number_type.code, offset)
        layouts.append(_string(name) + numbers)
        offset += _align(plan.size)
    head += b"".join(layouts)
    yield memoryview(head + bytes(_align(len(head)) - len(head)))
    for name, plan in plans.items():
        data = bytes_of(name)
        if len(data) != plan.size:
            raise ValueError(f"{name} has {len(data)} bytes instead of {plan.size}")
        yield from (data[start : start + PIECE] for start in range(0, len(data), PIECE))
        yield memoryview(bytes(_align(plan.size) - plan.size))


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Setting) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", BOOL, value)
        case Unsigned(number):
            return struct.pack("<II", UINT32, number)
        case float():
            return struct.pack("<If", FLOAT32, value)
        case str():
            return struct.pack("<I", STRING) + _string(value)
        case Signed(numbers) | Reals(numbers):
            kind, letter = (INT32, "i") if isinstance(value, Signed) else (FLOAT32, "f")
            return struct.pack(f"<IIQ{len(numbers)}{letter}", ARRAY, kind, len(numbers), *numbers)
        case texts:
            return struct.pack("<IIQ", ARRAY, STRING, len(texts)) + b"".join(map(_string, texts))
