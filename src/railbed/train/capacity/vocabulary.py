"""The size of the vocabulary, if the recipe leaves it to the tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

from railbed.train.recipe import Recipe


def with_vocabulary(recipe: Recipe, tokens: Path) -> Recipe:
    """Return the recipe with the size of its vocabulary, from a folder of prepared tokens."""
    if recipe.model.vocabulary != "auto":
        return recipe
    return recipe.for_vocabulary(int(json.loads((tokens / "tokens.json").read_text())["vocabulary"]))
