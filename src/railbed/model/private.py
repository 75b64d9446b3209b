"""Files and folders that only their user may open."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def for_us_alone(path: str, flags: int) -> int:
    """Open a file, as `opener` of `open`: a new file is readable for this user only, and links are not followed."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def make_private(folder: Path) -> None:
    """Create a folder and the missing ones above it, for this user alone; existing ones stay as they are."""
    if not os.path.lexists(folder):
        make_private(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
