"""The form in which the facts of IPMI and Redfish are the same, and how severe an event in a log is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from railbed.parsing.lines import TextFacts

Severity = Literal["ok", "warning", "critical"]
SensorState = Literal["ok", "warning", "critical", "absent"]
SensorKind = Literal["power supply", "fan", "temperature", "voltage", "other"]

MAX_TEXT = 200
EARLIEST = datetime(2005, 1, 1, tzinfo=UTC).timestamp()
"""A BMC that has lost its clock counts from 1970."""

CRITICAL = re.compile(
    r"uncorrectable|(?<!non-)(?<!non )\bcritical|non-recoverable|failure detected|ac lost|input lost|power lost"
    r"|\bierr\b|thermal trip|\bfatal|bus (?:uncorrectable|fatal)|hard reset|\bfailed\b|\bfault",
    re.IGNORECASE,
)
WARNING = re.compile(
    r"correctable|non-critical|redundancy (?:lost|degraded)|predictive|throttled|degraded|transition to|power off/down",
    re.IGNORECASE,
)
MEMORY = re.compile(r"\bmemory\b|\bdimm|\becc\b", re.IGNORECASE)
UNCORRECTABLE = re.compile(r"uncorrect|multi-?bit|fatal", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcPower(TextFacts):
    """Whether the machine is on, and what the BMC says about it as a whole."""

    power: Literal["on", "off"] | None = None
    faults: tuple[str, ...] = ()
    """Faults of the chassis, or of parts of the system whose health is not OK."""
    last_event: str = ""
    """What switched it off or on last, if the BMC remembers."""
    model: str = ""
    serial: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcSensor:
    """One sensor, or one part with a health of its own."""

    name: str
    kind: SensorKind = "other"
    value: float | None = None
    unit: str = ""
    state: SensorState | None = None
    """None if the BMC does not judge it."""
    text: str = ""
    """What it reports in words, such as `Presence detected, Failure detected`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcSensors(TextFacts):
    """The sensors of a machine."""

    sensors: tuple[BmcSensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcEvent:
    """One entry of the event log."""

    number: str
    time: float | None = None
    """By the clock of the BMC; None if it had lost it."""
    source: str = ""
    """The sensor that it is about."""
    text: str
    severity: Severity | None = None
    is_asserted: bool = True
    """False if the state that it names ended, or was resolved."""

    @property
    def is_about_memory(self) -> bool:
        """Whether it is about memory."""
        return bool(MEMORY.search(f"{self.source} {self.text}"))

    @property
    def is_uncorrectable(self) -> bool:
        """Whether data was lost, if it is about memory."""
        return bool(UNCORRECTABLE.search(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcLog(TextFacts):
    """The event log, oldest first as far as times are known."""

    events: tuple[BmcEvent, ...]


def severity_of(text: str) -> Severity | None:
    """Return how severe an event is whose log does not say so, by its words; None if they do not show it."""
    if CRITICAL.search(text):
        return "critical"
    return "warning" if WARNING.search(text) else None


def short(text: str) -> str:
    """Return a text of a device in one line, shortened if it is long."""
    line = " ".join(text[: 4 * MAX_TEXT].split())
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def moment(at: datetime) -> float | None:
    """Return a time of a BMC's clock in seconds since the epoch; None if that clock was lost."""
    try:
        seconds = at.timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return seconds if seconds > EARLIEST else None


def by_time(events: list[BmcEvent]) -> tuple[BmcEvent, ...]:
    """Return events in order of time; those without a time stay behind the one before them in the log."""
    keyed: list[tuple[float, int, BmcEvent]] = []
    last = 0.0
    for index, event in enumerate(events):
        last = event.time if event.time is not None else last
        keyed.append((last, index, event))
    return tuple(event for _, _, event in sorted(keyed, key=lambda key: key[:2]))
