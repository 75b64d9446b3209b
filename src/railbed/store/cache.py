"""The user's cache folder: labs, images and locks, which do not belong to one working folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `$RAILBED_CACHE`, by default `railbed` in the user's cache folder."""
    override = os.environ.get("RAILBED_CACHE")
    if override:
        return Path(override).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "railbed"
