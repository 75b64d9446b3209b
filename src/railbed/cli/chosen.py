"""The run that a user names, which is printed if it was `newest`."""

from __future__ import annotations

import sys
from pathlib import Path

from railbed.errors import UsageError
from railbed.store import ANY_RUN, NEWEST, RunKind, find_run


def chosen_run(name: str | None, kind: RunKind = ANY_RUN, otherwise: RunKind | None = None) -> Path:
    """Return the folder of the run that a user names; for `newest`, print which run that is.

    If there is no run of this kind, `newest` is the newest of the other kind.
    """
    try:
        folder = find_run(name, kind)
    except UsageError:
        if name != NEWEST or otherwise is None:
            raise
        return chosen_run(name, otherwise)
    if name == NEWEST:
        sys.stderr.write(f"newest {kind.noun}: {folder.name}\n")
    return folder
