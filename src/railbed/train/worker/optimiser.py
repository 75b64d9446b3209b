"""AdamW: its schedule, gradient clipping, and its state by parameter name."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

from railbed.train.recipe import Optimiser

EPSILON = 1e-8
MOMENTS = ("exp_avg", "exp_avg_sq")


def learning_rate(settings: Optimiser, step: int, steps: int) -> float:
    """Return the learning rate of a step, counted from 0: linear warm-up, then a cosine decay."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    progress = (step - settings.warmup_steps) / max(1, steps - settings.warmup_steps)
    cosine = 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
    return settings.learning_rate * (settings.final_fraction + (1.0 - settings.final_fraction) * cosine)


def make(model: nn.Module, settings: Optimiser) -> torch.optim.AdamW:
    """Return a fused AdamW; only matrices have weight decay."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() >= 2]
    others = [parameter for parameter in trained if parameter.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    fused = matrices[0].device.type in {"cpu", "cuda"}
    betas = (settings.beta1, settings.beta2)
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, eps=EPSILON, fused=fused)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def divide(model: nn.Module, factor: float) -> None:
    """Divide the gradients by a factor."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(factor)


def clip(model: nn.Module, limit: float) -> torch.Tensor:
    """Scale the gradients down to a norm of `limit` (0: no limit); return their norm before that."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    # Reading the norm is free on a CPU and saves a pass over all gradients; a GPU would have to be waited for.
    below = norm.device.type == "cpu" and float(norm) < limit - 1e-6
    if limit > 0 and not below:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
    return norm


def moments(model: nn.Module, optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Yield moment, parameter and tensor; creates the moments that the first step would create."""
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        state = optimiser.state[parameter]
        for moment in MOMENTS:
            if moment not in state:
                state[moment] = torch.zeros_like(parameter)
            yield moment, name, state[moment]


def set_step(optimiser: torch.optim.Optimizer, step: int) -> None:
    """Set the number of steps that AdamW has taken."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            on = parameter.device if group.get("fused") else "cpu"
            optimiser.state[parameter]["step"] = torch.tensor(float(step), dtype=torch.float32, device=on)
