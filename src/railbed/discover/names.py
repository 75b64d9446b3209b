"""Names that the cluster file takes, from whatever machines and people call a thing."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain, count

MAX_LENGTH = 64


def name_from(text: str) -> str:
    """Return a text as a name of the cluster file; empty where nothing of it can stand in one."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text).strip("-._")[:MAX_LENGTH].rstrip("-._")


def free_name(text: str, taken: Collection[str]) -> str:
    """Return a text as a name that is not taken yet, with a number where it is; `node1` where it gives no name."""
    wanted = name_from(text)
    if not wanted:
        return next(name for name in (f"node{number}" for number in count(1)) if name not in taken)
    ends = chain([""], (f"-{number}" for number in count(2)))
    return next(name for end in ends if (name := wanted[: MAX_LENGTH - len(end)] + end) not in taken)


def in_order(text: str) -> str:
    """Return what a text is sorted by, so that gpu2 comes before gpu10."""
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(MAX_LENGTH), text)
