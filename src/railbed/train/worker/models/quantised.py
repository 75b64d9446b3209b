"""Layers that bitsandbytes quantised: they compute the same on every processor."""

from __future__ import annotations

import logging

from torch import nn

REARRANGES = "support_avx512bf16_for_cpu"


def silence_warnings() -> None:
    """Hide that bitsandbytes looks for a kernel on a hub when it is imported; `compute_plainly` does without it."""
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def compute_plainly(model: nn.Module) -> None:
    """Keep the weights of layers with 4 bits as they were stored, on processors with AVX512-BF16 too.

    There, bitsandbytes would rearrange them at the first pass without gradients. From then on no gradient passes
    through the layer, sums are rounded to bf16, and widths that are no multiple of 32 fail.
    """
    for module in model.modules():
        if hasattr(module, REARRANGES):
            setattr(module, REARRANGES, False)
