"""Number formats of the computation, by device. Needs no torch: memory is estimated before the ranks start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Format = Literal["fp32", "bf16", "fp16"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
VALUE_BYTES: Mapping[Format, int] = {"fp32": 4, "bf16": 2, "fp16": 2}
BF16_CAPABILITY, FP16_CAPABILITY = 8.0, 7.0
"""The first compute capabilities whose matrix units have bf16 (Ampere), and fp16 (Volta; Turing is 7.5)."""


def format_of_card(capability: float) -> Format:
    """Return the format that a GPU computes in unless the recipe has another."""
    if capability >= BF16_CAPABILITY:
        return "bf16"
    return "fp16" if capability >= FP16_CAPABILITY else "fp32"
