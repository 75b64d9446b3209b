"""Lists of names, with ranges: `node1–node4, node7` and, as on a Nexus, `Ethernet1/1-4`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from railbed.present.wording import counted

PARTS_SHOWN = 4
NUMBERED = re.compile(r"(\S*?)(\d{1,9})", re.ASCII)
"""A name in a range; paths such as `rail0 > node2` have spaces, and are listed one by one."""


def name_range(names: Iterable[str], *, shortened: bool = False) -> str:
    """Return all names, or, if `shortened`, for a long list the first parts and the number of others."""
    parts = [part for run in _runs(sorted(dict.fromkeys(names), key=counted)) for part in _parts(run)]
    if not shortened or len(parts) <= PARTS_SHOWN + 1:
        return ", ".join(word for word, _ in parts)
    rest = sum(count for _, count in parts[PARTS_SHOWN:])
    return f"{', '.join(word for word, _ in parts[:PARTS_SHOWN])} and {rest} others"


def each_of(names: Sequence[str]) -> str:
    """Return the words before what several devices have in common; empty for one."""
    return f"each of {len(names)}: " if len(names) > 1 else ""


def _runs(names: Sequence[str]) -> list[list[str]]:
    """Group consecutive names: the same prefix and the next number."""
    runs = [[name] for name in names[:1]]
    for before, name in pairwise(names):
        if _follows(before, name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs


def _parts(run: Sequence[str]) -> list[tuple[str, int]]:
    """Return the parts of a run and how many names each covers; two names are not a range."""
    if len(run) <= 2:
        return [(name, 1) for name in run]
    last = NUMBERED.fullmatch(run[-1])
    text = f"{run[0]}-{last[2]}" if last and last[1].endswith("/") else f"{run[0]}–{run[-1]}"
    return [(text, len(run))]


def _follows(before: str, name: str) -> bool:
    first, second = NUMBERED.fullmatch(before), NUMBERED.fullmatch(name)
    if not first or not second or first[1] != second[1]:
        return False
    padded = first[2].startswith("0") or second[2].startswith("0")
    return int(second[2]) == int(first[2]) + 1 and (not padded or len(first[2]) == len(second[2]))
