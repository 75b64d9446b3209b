"""Samples text, as tokens, from a model."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from railbed.train.worker.models.base import LanguageModel

TEMPERATURE = 0.8
TOP_K = 40
MAX_SECONDS = 10.0


@torch.no_grad()
def generate(model: LanguageModel, prompt: Sequence[int], count: int, *, seed: int) -> list[int]:
    """Return the prompt and up to `count` tokens after it; a slow machine stops earlier."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    tokens = list(prompt)
    end = time.monotonic() + MAX_SECONDS
    model.eval()
    while len(tokens) < len(prompt) + count and time.monotonic() < end:
        window = torch.tensor([tokens[-model.settings.context :]], device=device)
        scores = model.next_scores(window).float().cpu() / TEMPERATURE
        best = torch.topk(scores, min(TOP_K, len(scores)))
        pick = torch.multinomial(torch.softmax(best.values, 0), 1, generator=generator)
        tokens.append(int(best.indices[pick]))
    model.train()
    return tokens
