"""How numbers are stored in GGUF: fp32, fp16, bf16, and q8_0, which has 8 bits and a scale for every 32 values."""

from __future__ import annotations

from dataclasses import dataclass

import torch

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


def stored(tensor: torch.Tensor, number_type: NumberType) -> torch.Tensor:
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
