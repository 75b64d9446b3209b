"""How to undo what a run changed: a line for each change in the run's folder, written before the change is made."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import TypeAdapter
from pydantic_core import to_json

from railbed.model.fix import Fix
from railbed.model.private import for_us_alone

FILE = "undo.jsonl"
_FIX: TypeAdapter[Fix] = TypeAdapter(Fix)


def save_undo(run: Path, undo: Fix) -> None:
    """Add the fix that undoes a change, and return when it is on disk."""
    with open(run / FILE, "ab", opener=for_us_alone) as file:
        file.write(to_json(undo) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_undo(run: Path) -> list[Fix]:
    """Return the fixes that undo a run, the last change first; an incomplete line is of a change never made."""
    try:
        lines = (run / FILE).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [_FIX.validate_json(line) for line in reversed(lines)]
