"""Selects the strategy of a recipe."""

from __future__ import annotations

from railbed.train.recipe import Recipe
from railbed.train.worker.parallel.replicate import Replicate
from railbed.train.worker.parallel.strategy import Strategy


def strategy_of(recipe: Recipe) -> type[Strategy]:  # noqa: ARG001 -- there is one so far
    """Return the strategy that a recipe trains with."""
    return Replicate
