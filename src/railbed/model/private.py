"""Files that only their user may read."""

from __future__ import annotations

import os


def for_us_alone(path: str, flags: int) -> int:
    """Open a file, as `opener` of `open`: a new file is readable for this user only, and links are not followed."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
