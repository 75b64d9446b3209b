"""How many examples a property is tried on: all in `make test`, half of them in `make test-fast`."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """Return so many, or half where the run is to be a fast one."""
    return count // 2 if os.environ.get("RAILBED_FAST_TESTS") else count
