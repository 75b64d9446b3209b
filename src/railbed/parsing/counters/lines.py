"""The lines of the reader that runs on a node. They are foreign text: every line is checked before it is used.

The series that a node reports, from the layout that its reader sent, and the values of a row in their units.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import NamedTuple

from railbed.errors import ParseError
from railbed.model.meters import METERS, MISSING, SeriesKey
from railbed.parsing.counters.names import SOURCES, CounterTarget

MOST_SERIES = 8192
MOST_DIGITS = 20
LATEST_US = 1 << 60
MOST_NAME = 64
VERSION = 1


@dataclass(frozen=True, slots=True)
class Greeting:
    """The reader has started."""

    pid: int


@dataclass(frozen=True, slots=True)
class LayoutLine:
    """What the values of the following rows are."""

    groups: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Source, port, and the vendor's names of its counters."""

    @property
    def width(self) -> int:
        """Return the number of values of a row."""
        return sum(len(names) for _, _, names in self.groups)

    def columns(self) -> Iterator[tuple[str, str, str]]:
        """Yield source, port and name of every value."""
        for source, port, names in self.groups:
            yield from ((source, port, name) for name in names)


@dataclass(frozen=True, slots=True)
class Row:
    """The values at one time, in microseconds on the node's monotonic clock."""

    time_us: int
    values: list[int | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a heartbeat, with the node's monotonic clock and its time of day, in microseconds."""

    number: int
    time_us: int
    wall_us: int


@dataclass(frozen=True, slots=True)
class LineFault:
    """Why the reader ends."""

    text: str


@dataclass(frozen=True, slots=True)
class ForeignConnection:
    """A TCP connection of a program that is not part of the training."""

    local: str
    """Address and port."""
    peer: str
    process: str
    """Its number; empty if the program cannot be seen."""
    program: str


Line = Greeting | LayoutLine | Row | Answer | ForeignConnection | LineFault


def parse_line(line: bytes) -> Line:
    """Return what a line means; raise ParseError if it is not a line of the reader."""
    kind, _, rest = line.partition(b" ")
    match kind:
        case b"r":
            time, _, values = rest.partition(b" ")
            return Row(_time(time), _values(values))
        case b"q":
            number, *times = rest.split(b" ")
            if len(times) == 2:
                return Answer(_number(number), _time(times[0]), _time(times[1]))
        case b"l":
            return LayoutLine(_groups(rest))
        case b"h":
            version, _, pid = rest.partition(b" ")
            if version == b"%d" % VERSION:
                return Greeting(_number(pid))
        case b"t":
            return ForeignConnection(*_texts(rest))
        case b"e":
            return LineFault(rest[:200].decode("utf-8", "replace"))
    raise ParseError("not a line of the reader", line=line[:80].decode("utf-8", "replace"))


def _values(text: bytes) -> list[int | None]:
    cells = text.split(b" ", MOST_SERIES) if text else []
    try:
        # Lengths first: a number of many digits would take long to read.
        if len(cells) > MOST_SERIES or max(map(len, cells), default=0) > MOST_DIGITS:
            raise ParseError("more values than a node has")
        return [None if cell == b"-" else int(cell) for cell in cells]
    except ValueError:
        raise ParseError("expected numbers", line=text[:80].decode("utf-8", "replace")) from None


def _texts(text: bytes) -> tuple[str, str, str, str]:
    try:
        match json.loads(text):
            case [str(local), str(peer), str(process), str(program)] as texts if max(map(len, texts)) <= MOST_NAME:
                return local, peer, process, program
    except (ValueError, RecursionError):
        pass
    raise ParseError("not a connection", line=text[:80].decode("utf-8", "replace"))


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > MOST_DIGITS:
        raise ParseError("expected a number", line=text[:80].decode("utf-8", "replace"))
    return int(text)


def _time(text: bytes) -> int:
    time = _number(text)
    if time > LATEST_US:
        raise ParseError("a time in the far future", line=text.decode())
    return time


def _groups(text: bytes) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    try:
        groups = json.loads(text)
    except (ValueError, RecursionError):
        groups = None
    if not isinstance(groups, list):
        raise ParseError("expected a layout", line=text[:80].decode("utf-8", "replace"))
    checked = tuple(_group(group) for group in groups)
    if sum(len(names) for _, _, names in checked) > MOST_SERIES:
        raise ParseError(f"more than {MOST_SERIES} series")
    return checked


def _group(group: object) -> tuple[str, str, tuple[str, ...]]:
    match group:
        case [str(source), str(port), list(names)] if all(isinstance(name, str) for name in names):
            if len(port) > MOST_NAME or not port.isprintable() or " " in port:
                raise ParseError("not the name of a port", line=port[:80])
            return source, port, tuple(names)
    raise ParseError("expected source, port and names", line=str(group)[:80])


LARGEST = (1 << 63) - 1
PLAUSIBLE = 2
"""A counter that fell has wrapped only if it grew at most this many times as much as ever before."""


class _Column(NamedTuple):
    place: int
    factor: int


class Counted(NamedTuple):
    """A counter that wraps early."""

    value: int
    """As if it were wider."""
    most: int
    """The most by which it grew between two samples without falling."""


class ReaderLayout:
    """Series of a device, and where their values are in a row."""

    def __init__(self, device: str, line: LayoutLine) -> None:
        columns: dict[SeriesKey, tuple[_Column, CounterTarget]] = {}
        for index, (source, port, name) in enumerate(line.columns()):
            counter, _, peer = name.partition("@") if source == "tcp_peer" else (name, "", "")
            target = SOURCES.get(source, {}).get(counter)
            if target is None or (source == "tcp_peer" and not _is_address(peer)):
                continue
            meter = METERS[target.meter]
            part = port if source == "gpu" else peer or target.part
            series = SeriesKey(device, target.meter, port if meter.per_port else "", part)
            columns.setdefault(series, (_Column(index, target.factor), target))
        self.width = line.width
        self.series = tuple(columns)
        self._columns = [column for column, _ in columns.values()]
        self._narrow = [
            (place, target.bits)
            for place, (series, (_, target)) in enumerate(columns.items())
            if target.bits < METERS[series.meter].bits
        ]

    def values(self, row: Sequence[int | None]) -> list[int]:
        """Return the value of each series; MISSING if the row has none, or one that no counter can have."""
        values = []
        for place, factor in self._columns:
            value = row[place]
            scaled = MISSING if value is None else value * factor
            values.append(scaled if 0 <= scaled <= LARGEST else MISSING)
        return values

    def widen(self, values: list[int], last: dict[SeriesKey, Counted]) -> None:
        """Continue counters that wrap at their own width, as 32 bits of mlx5, at the width of their meter.

        `last` has the state of each, also from before a gap, and is updated.
        """
        for place, bits in self._narrow:
            if values[place] != MISSING:
                series = self.series[place]
                last[series] = _continue(last.get(series), values[place], 1 << bits)
                values[place] = last[series].value


def _is_address(text: str) -> bool:
    try:
        return str(IPv4Address(text)) == text
    except ValueError:
        return False


def _continue(before: Counted | None, value: int, width: int) -> Counted:
    """Return the state of a counter whose next value is this one, which wraps at `width`."""
    if before is None:
        return Counted(value, 0)
    growth = (value - before.value) % width
    if value >= before.value % width:
        return Counted(before.value + growth, max(before.most, growth))
    # It wrapped, or it was reset. A reset taken for a wrap would look like billions of errors, whereas a wrap taken for
    # a reset is one sample without a rate.
    is_wrap = growth <= (PLAUSIBLE * before.most or width // 4)
    return Counted(before.value + growth if is_wrap else value, before.most)
