"""Finds the model families in this folder."""

from __future__ import annotations

from functools import cache

from railbed import catalog
from railbed.train import models
from railbed.train.models.family import Family

DEFAULT = "gpt"


@cache
def families() -> dict[str, Family]:
    """Return the model families by name."""
    return catalog.collect(models, Family, "FAMILY")


def family_of(name: str) -> Family:
    """Return the model family of this name; raise UsageError if there is none."""
    return catalog.choose(families(), name, kind="model family", listing=f"the families are {', '.join(families())}")
