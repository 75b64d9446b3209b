"""QoS of a Nexus as data: class-maps, policy-maps and what each class of a policy does.

The same types come from the running configuration, from `show policy-map` and from their JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from railbed.errors import ParseError
from railbed.parsing.text import integer

PolicyType = Literal["qos", "queuing", "network-qos"]
TYPES = get_args(PolicyType)
CLASS_MAP = re.compile(r"class-map (?:type (?P<type>\S+) )?(?P<match>match-any |match-all )?(?P<name>\S+)")
POLICY_MAP = re.compile(r"policy-map (?:type (?P<type>\S+) )?(?P<name>\S+)")
POLICY_CLASS = re.compile(r"class\s+(?:type (?P<type>\S+) )?(?P<name>\S+)")
RANDOM_DETECT = re.compile(
    r"random-detect(?: minimum-threshold (?P<low>\d+) (?P<low_unit>\S+) maximum-threshold (?P<high>\d+)"
    r" (?P<high_unit>\S+))?(?: drop-probability (?P<probability>\d+))?(?: weight (?P<weight>\d+))?(?: cap-average)?"
    r"(?P<ecn> ecn)?"
)
ACCESS_LIST = "access-group "
"""Begins a match of packets by an access list, whose lines are not part of the QoS configuration."""
KILOBYTES = {"bytes": 1 / 1000, "kbytes": 1.0, "mbytes": 1000.0}
DSCP_NAMES = {
    "default": 0,
    **{f"cs{number}": 8 * number for number in range(1, 8)},
    **{f"af{major}{minor}": 8 * major + 2 * minor for major in range(1, 5) for minor in range(1, 4)},
    "ef": 46,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wred:
    """Random early detection of a queue."""

    low_kbytes: float | None = None
    """Below this length of the queue nothing is marked."""
    high_kbytes: float | None = None
    """Above it every packet is."""
    probability: int | None = None
    """Percentage that is marked just below the upper threshold."""
    weight: int | None = None
    ecn: bool
    """Packets are marked; without it they are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyClass:
    """What a policy does with a class."""

    name: str
    qos_group: int | None = None
    """Of a qos policy: the group that it puts packets into."""
    mtu: int | None = None
    pause: tuple[int, ...] = ()
    """Of a network-qos policy: the priorities that are paused instead of dropped."""
    no_drop: bool = False
    """Of a Nexus 5000: paused, on the priority of its QoS group."""
    bandwidth: int | None = None
    """Percentage of the port's bandwidth, or of what the priority queue leaves."""
    priority: int | None = None
    """Level of a strict priority queue."""
    wred: Wred | None = None
    other: tuple[str, ...] = ()
    """All other lines, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyMap:
    """A policy: its classes, in the order in which they are tried."""

    type: PolicyType
    name: str
    classes: tuple[PolicyClass, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMap:
    """Which packets belong to a class."""

    type: PolicyType
    name: str
    match_all: bool = False
    matches: tuple[str, ...] = ()
    """Its `match` lines, without that word."""

    def __post_init__(self) -> None:
        """Raise ParseError if a line has something other than numbers: rules expect that they can be used."""
        for match in self.matches:
            tuple(_dscps(match))
        _ = self.qos_groups

    @property
    def dscps(self) -> frozenset[int]:
        """The DSCPs of all its lines; `includes` decides whether a packet needs more than one of them."""
        return frozenset(number for match in self.matches for number in _dscps(match))

    def includes(self, dscp: int, *, conjunctive: bool | None) -> bool | None:
        """Whether every packet of a DSCP is in the class; None if that depends on what the facts do not show.

        `conjunctive` is what `match-all` means on this switch: all lines, any line, or unknown (None).
        """
        of_any = self._includes_any(dscp)
        if not self.match_all or len(self.matches) < 2 or conjunctive is False:
            return of_any
        of_all = self._includes_all(dscp)
        return of_all if conjunctive or of_all == of_any else None

    def _includes_any(self, dscp: int) -> bool | None:
        if dscp in self.dscps:
            return True
        return None if any(match.startswith(ACCESS_LIST) for match in self.matches) else False

    def _includes_all(self, dscp: int) -> bool | None:
        decided = [frozenset(_dscps(match)) for match in self.matches if match.startswith("dscp ")]
        if any(dscp not in numbers for numbers in decided):
            return False
        return True if len(decided) == len(self.matches) else None

    @property
    def qos_groups(self) -> frozenset[int]:
        """The QoS groups that it matches."""
        return frozenset(
            number
            for match in self.matches
            if match.startswith("qos-group ")
            for number in numbers(match.removeprefix("qos-group "))
        )


def policy_type(text: str | None) -> PolicyType:
    """Return the type of a class-map or policy-map; without one it is `qos`."""
    if text is None:
        return "qos"
    if text not in TYPES:
        raise ParseError("an unknown type of class-map or policy-map", line=text)
    return cast("PolicyType", text)


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list with ranges: `24-26,48`."""
    result: list[int] = []
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        start, end = integer(first), integer(last if dash else first)
        if not 0 <= start <= end <= 63:
            raise ParseError("expected a list of numbers from 0 to 63", line=text)
        result += range(start, end + 1)
    return tuple(result)


def _dscps(match: str) -> Iterator[int]:
    kind, _, values = match.partition(" ")
    if kind != "dscp":
        return
    for value in values.removeprefix("ipv4 ").removeprefix("ipv6 ").split(","):
        name = value.strip().lower()
        yield from (DSCP_NAMES[name],) if name in DSCP_NAMES else numbers(name)


def class_of(name: str, lines: Iterable[str]) -> PolicyClass:
    """Parse the lines below a class of a policy."""
    settings = PolicyClass(name=name)
    for line in lines:
        words = " ".join(line.split())
        settings = _with_line(settings, words)
    return settings


def _with_line(settings: PolicyClass, line: str) -> PolicyClass:
    changes: dict[str, Any]
    match line.split():
        case ["set", "qos-group", group]:
            changes = {"qos_group": integer(group)}
        case ["mtu", size]:
            changes = {"mtu": integer(size)}
        case ["pause", *options] if "pfc-cos" in options:
            changes = {"pause": numbers(" ".join(options[options.index("pfc-cos") + 1 :]))}
        case ["pause", "no-drop", *_]:
            changes = {"no_drop": True}
        case ["bandwidth", *_, percentage] if percentage.isdecimal():
            changes = {"bandwidth": integer(percentage)}
        case ["priority"]:
            changes = {"priority": 1}
        case ["priority", "level", level]:
            changes = {"priority": integer(level)}
        case ["random-detect", *_]:
            changes = {"wred": _wred(line)}
        case _:
            changes = {"other": (*settings.other, line)}
    return replace(settings, **changes)


def _wred(line: str) -> Wred:
    match = RANDOM_DETECT.fullmatch(line)
    if not match:
        raise ParseError("an unknown form of random-detect", line=line)
    return Wred(
        low_kbytes=kilobytes(match["low"], match["low_unit"]),
        high_kbytes=kilobytes(match["high"], match["high_unit"]),
        probability=integer(match["probability"]) if match["probability"] else None,
        weight=integer(match["weight"]) if match["weight"] else None,
        ecn=match["ecn"] is not None,
    )


def kilobytes(amount: str | None, unit: str | None) -> float | None:
    """Return a threshold in kilobytes; None if it is not given in bytes."""
    factor = KILOBYTES.get((unit or "").lower())
    return None if amount is None or factor is None else integer(amount) * factor
