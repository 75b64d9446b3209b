"""The number format that a rank computes in: what the recipe has, or what suits its device."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch

from railbed.train.precision import Format, Precision, format_of_card

TYPES: Mapping[Format, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
INSTRUCTIONS: Mapping[torch.dtype, frozenset[str]] = {
    torch.bfloat16: frozenset({"avx512_bf16", "amx_bf16", "bf16"}),
    torch.float16: frozenset({"avx512_fp16", "amx_fp16", "asimdhp"}),
}
"""Flags in /proc/cpuinfo of processors that compute in a format: those of x86, and of aarch64."""
CPUINFO = Path("/proc/cpuinfo")


def format_on(device: torch.device, wanted: Precision) -> Format:
    """Return the format to compute in on a device.

    A processor without instructions for 16 bits emulates them, a hundred times slower: it computes in fp32 instead.
    """
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return format_of_card(major + minor / 10) if wanted == "auto" else wanted
    return wanted if wanted != "auto" and processor_has(TYPES[wanted]) else "fp32"


def type_name(dtype: torch.dtype) -> str:
    """Return torch's name of a type, as it is in files."""
    return str(dtype).removeprefix("torch.")


def type_named(name: object) -> torch.dtype:
    """Return the type of that name; fp32 if it is none that ranks compute in."""
    return next((dtype for dtype in TYPES.values() if type_name(dtype) == name), torch.float32)


def processor_has(dtype: torch.dtype) -> bool:
    """Whether this machine's processor has instructions for a type."""
    return dtype == torch.float32 or bool(INSTRUCTIONS[dtype] & _flags())


@cache
def _flags() -> frozenset[str]:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, flags = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(flags.split())
    return frozenset()
