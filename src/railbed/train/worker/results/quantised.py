"""Weights as a quantised model has them: rounded to 4 or 8 bits and back, by the library that training uses."""

from __future__ import annotations

from typing import Any

import torch

from railbed.train.results.adapter import Base
from railbed.train.worker.results.libraries import library

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
