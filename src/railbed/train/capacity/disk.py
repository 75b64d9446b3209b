"""Whether the nodes have disk space for checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from railbed.model import events
from railbed.model.record import Event
from railbed.model.text import amount
from railbed.train.capacity.vocabulary import with_vocabulary
from railbed.train.parallelism import parallelism_of
from railbed.train.recipe import Recipe
from railbed.train.state.checkpoints import KEPT


def disk_notices(
    recipe: Mapping[str, Any], tokens: Path | None, free: Mapping[str, int], world: int
) -> Iterator[Event]:
    """Yield a notice for each node that has too little disk space; `free` has the free bytes of each."""
    settings = Recipe.read(recipe)
    if settings.traffic or tokens is None:
        return
    settings = with_vocabulary(settings, tokens)
    parameters = settings.family.trained_count(settings.model)
    saved = parallelism_of(settings).saved_bytes(parameters, world)
    needed = saved * (KEPT + 1)  # the new checkpoint is complete before the oldest is removed
    for node, size in free.items():
        if size < needed:
            message = (
                f"its disk has {amount.size(size)} free, and checkpoints take up to {amount.size(needed)}: "
                "those that do not fit will not be saved"
            )
            yield events.Notice(subject=node, message=message)
