"""Is there room for checkpoints? Told before training begins: a checkpoint that does not fit is not kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from railbed.model.record import Event
from railbed.train.capacity.estimate import parameter_count
from railbed.train.settings import Settings
from railbed.train.state.checkpoints import KEPT

BYTES_PER_PARAMETER = 12
"""The parameter and AdamW's two moments, each in fp32."""


def room_notices(recipe: Mapping[str, Any], tokens: Path | None, free: Mapping[str, int]) -> Iterator[Event]:
    """Yield a notice for each node whose disk is too small: `free` are the bytes that each has."""
    settings = Settings.read(recipe)
    if settings.traffic or tokens is None:
        return
    model, given = settings.model, settings.model.vocabulary
    vocabulary = int(json.loads((tokens / "tokens.json").read_text())["vocabulary"]) if given == "auto" else given
    parameters = parameter_count(layers=model.layers, width=model.width, context=model.context, vocabulary=vocabulary)
    needed = BYTES_PER_PARAMETER * parameters * (KEPT + 1)  # the new one is whole before the oldest goes
    for node, size in free.items():
        if size < needed:
            message = (
                f"its disk has room for {size / 1e9:,.2f} GB and checkpoints take up to {needed / 1e9:,.2f} GB: "
                "those that do not fit will not be kept"
            )
            yield Event(name="notice", subject=node, message=message)
