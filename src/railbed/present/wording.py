"""Numbers with units, plurals, lists and times as people read them.

Lists of names have ranges: `node1–node4, node7` and, as on a Nexus, `Ethernet1/1-4`. Commands in hints and remedies get
the cluster file, so that they can be pasted as they are.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from pathlib import Path

from railbed.model import text
from railbed.model.record import Change, Event, Finding, Record
from railbed.model.text import number

NOT_KNOWN = "unknown"
JOIN = "\N{NO-BREAK SPACE}"
"""Between a number and its unit, so that no line breaks there."""
_NUMBER_SPACE = re.compile(r"(?<=\d) (?=\D)")
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_DIGITS = re.compile(r"([0-9]{1,18})")


def seconds(value: float) -> str:
    """Return a duration."""
    return _join_unit(text.duration(value)) if _is_finite(value) else NOT_KNOWN


def size(value: float) -> str:
    """Return a number of bytes, in powers of a thousand."""
    return _join_unit(text.size(value)) if _is_finite(value) else NOT_KNOWN


def percent(share: float) -> str:
    """Return a share (0 to 1) as a percentage."""
    return f"{number(share * 100, 3)}{JOIN}%" if _is_finite(share) else NOT_KNOWN


def with_unit(value: float, unit: str) -> str:
    """Return a measured value."""
    match unit:
        case "s":
            return seconds(value)
        case "byte":
            return size(value)
        case "1" | "":
            return f"{value:,.0f}" if value.is_integer() and value >= 0 else number(value)
        case "us":
            return f"{number(value)}{JOIN}µs"
        case _:
            return f"{number(value)}{JOIN}{unit}"


def plural(count: int, singular: str, plural_form: str = "") -> str:
    """Return `1 restart`, `2 restarts`."""
    return text.plural(count, singular, plural_form).replace(" ", JOIN, 1)


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts node2 before node10."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (0, part) for part in _DIGITS.split(name)]


def join_names(names: Iterable[str]) -> str:
    """Return `a, b and c`."""
    words = list(names)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def moment(at: float, form: str = "%Y-%m-%d %H:%M:%S %Z") -> str:
    """Return a point in time, in the local time zone."""
    try:
        return time.strftime(form, time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return NOT_KNOWN


def split_quoted(text: str) -> list[tuple[str, bool]]:
    """Return the parts of a text, each with whether it was in `backticks`: such a part is something to type."""
    return [(part, at % 2 == 1) for at, part in enumerate(_BACKTICKS.split(text))]


def _is_finite(value: float) -> bool:
    """Whether people can read a number; an integer may be too large for anything but text."""
    try:
        return isfinite(value)
    except OverflowError:
        return False


def _join_unit(text: str) -> str:
    return _NUMBER_SPACE.sub(JOIN, text)


PARTS_SHOWN = 4
NUMBERED = re.compile(r"(\S*?)(\d{1,9})", re.ASCII)
"""A name in a range; paths such as `rail0 > node2` have spaces, and are listed one by one."""


def name_range(names: Iterable[str], *, shortened: bool = False) -> str:
    """Return all names, or, if `shortened`, for a long list the first parts and the number of others."""
    parts = [part for run in _runs(sorted(dict.fromkeys(names), key=natural_order)) for part in _parts(run)]
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


DEFAULT_CLUSTER = Path("cluster.yaml")
"""The cluster file of a folder."""
COMMAND = re.compile(r"`(railbed (?:discover|check|configure|bench|train|capture)(?: [^`\n]*)?)`")
"""A command of a verb that takes a cluster file."""
WITHOUT_CLUSTER = re.compile(
    r" (?:-c|--cluster|--explain|--list|--attach|--stop|--resume|--second-visit|--from|--help)\b"
)
"""Options with which a command needs no cluster file."""


def cluster_option(file: Path | str | None) -> str:
    """Return the option for a cluster file, quoted for a shell; empty for the default file."""
    return f" -c {shlex.quote(str(file))}" if file is not None and Path(file) != DEFAULT_CLUSTER else ""


def add_cluster(text: str, file: Path | None) -> str:
    """Return a text with a cluster file added to its commands."""
    option = cluster_option(file)
    if not option or "`railbed " not in text:
        return text
    return COMMAND.sub(lambda match: f"`{match[1]}{'' if WITHOUT_CLUSTER.search(match[1]) else option}`", text)


def advise(record: Record, file: Path | None) -> Record:
    """Return a record with a cluster file in the commands of its remedy, reason or message."""
    match record:
        case Finding(remedy=text) if text and (complete := add_cluster(text, file)) != text:
            return replace(record, remedy=complete)
        case Change(left_out=text) if text and (complete := add_cluster(text, file)) != text:
            return replace(record, left_out=complete)
        case Event(message=text) if text and (complete := add_cluster(text, file)) != text:
            return replace(record, message=complete)
    return record
