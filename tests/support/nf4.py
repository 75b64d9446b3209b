"""4-bit NormalFloat as its paper describes it, written for comparison: nothing here comes from the library."""

from __future__ import annotations

import torch

BLOCK, OUTER_BLOCK = 64, 256


def nf4_levels() -> torch.Tensor:
    """Return the sixteen values: quantiles of the normal distribution, eight below zero, zero, seven above."""
    offset = 0.9677083
    above = torch.special.ndtri(torch.linspace(offset, 0.5, 9, dtype=torch.float64)[:-1])
    below = -torch.special.ndtri(torch.linspace(offset, 0.5, 8, dtype=torch.float64)[:-1])
    levels = torch.cat([above, below, torch.zeros(1, dtype=torch.float64)]).sort().values
    return (levels / levels.abs().max()).float()


def dynamic_levels() -> torch.Tensor:
    """Return the 256 values of 8-bit dynamic numbers: seven exponents, each with more fraction bits than the last."""
    values = [0.0, 1.0]
    for exponent in range(7):
        borders = torch.linspace(0.1, 1.0, 2**exponent + 1)
        means = (borders[:-1] + borders[1:]) / 2
        values += [sign * 10.0 ** (exponent - 6) * mean for mean in means.tolist() for sign in (1, -1)]
    return torch.tensor(sorted(values))


def nearest(values: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """Return the nearest level of every value."""
    return levels[(values[..., None] - levels).abs().argmin(-1)]


def nf4_round_trip(weight: torch.Tensor, *, double: bool) -> torch.Tensor:
    """Return a matrix after it was quantised and restored."""
    blocks = weight.reshape(-1, BLOCK)
    scales = blocks.abs().amax(1, keepdim=True)
    rounded = nearest(blocks / scales, nf4_levels())
    if double:
        scales = _eight_bits(scales.flatten())[:, None]
    return (rounded * scales).reshape(weight.shape)


def _eight_bits(scales: torch.Tensor) -> torch.Tensor:
    """Quantise the scales: less their mean, in blocks, to dynamic numbers."""
    mean = scales.mean()
    pieces = []
    for piece in torch.split(scales - mean, OUTER_BLOCK):
        largest = piece.abs().max()
        pieces.append(nearest(piece / largest, dynamic_levels()) * largest)
    return torch.cat(pieces) + mean
