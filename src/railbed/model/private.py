"""Files that only their user may read."""

from __future__ import annotations

import os


def for_us_alone(path: str, flags: int) -> int:
    """Open a file, as `opener` of `open`: one that is made belongs to us alone, and a link is not followed."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
