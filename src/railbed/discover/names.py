"""Names for new nodes and switches that clash with no other."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain, count

from railbed.model.cabling import NAME_LENGTH, name_from


def free_name(text: str, taken: Collection[str]) -> str:
    """Turn a text into an unused name, numbered if necessary; `node1` if it has no usable characters."""
    wanted = name_from(text)
    if not wanted:
        return next(name for name in (f"node{number}" for number in count(1)) if name not in taken)
    ends = chain([""], (f"-{number}" for number in count(2)))
    return next(name for end in ends if (name := wanted[: NAME_LENGTH - len(end)] + end) not in taken)


def in_order(text: str) -> str:
    """Return the sort key that puts gpu2 before gpu10."""
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(NAME_LENGTH), text)
