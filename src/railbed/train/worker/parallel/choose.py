"""Selects the strategy of a recipe."""

from __future__ import annotations

from railbed.train.recipe import Recipe
from railbed.train.worker.parallel.replicate import Replicate, SumAfter
from railbed.train.worker.parallel.strategy import Strategy


def strategy_of(recipe: Recipe) -> type[Strategy]:
    """Return the strategy that a recipe trains with."""
    return Replicate if recipe.model.base_folder is None else SumAfter
