"""Selects the strategy of a recipe."""

from __future__ import annotations

from railbed.train.recipe import Recipe
from railbed.train.worker.parallel.replicate import Replicate
from railbed.train.worker.parallel.strategy import Strategy
from railbed.train.worker.parallel.sumafter import SumAfter


def strategy_of(recipe: Recipe) -> type[Strategy]:
    """Return the strategy that a recipe trains with."""
    return Replicate if recipe.model.base_folder is None else SumAfter
