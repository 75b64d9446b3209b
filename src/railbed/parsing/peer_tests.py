"""Tests of several peers from one shell, without mixing their outputs, and the load of the testing machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.parsing.lines import Lines

AT_ONCE = 8
"""How many peers one machine tests at the same time."""

IN_ONE_WRITE = "2>&1 | dd obs=4096 2>/dev/null"
"""Appended to a group of commands: its output is written at once, which a pipe does not split."""

LOAD = "load"
PAUSE_SECONDS = 0.1
MEASURE_LOAD = f"""\
echo '==> {LOAD} <=='; cat /proc/loadavg; grep -c '^processor' /proc/cpuinfo
read -r before _ </proc/uptime; sleep {PAUSE_SECONDS:g}; read -r after _ </proc/uptime; echo "$before $after"
"""
"""Prints a section with the load averages, the number of processors, and the uptime before and after a pause."""
NUMBERS = re.compile(r"[\d. /]+", re.ASCII)
LOAD_TEXT = re.compile(r"([\d.]{1,12}) [\d. /]{1,60}\s+(\d{1,6})\s+(\d{1,15}\.\d\d) (\d{1,15}\.\d\d)", re.ASCII)

MOST_DELAY_SECONDS = 0.25
"""A machine that wakes up later than this may also process an answer too late."""
MOST_LOAD_PER_CPU = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLoad:
    """How busy a machine was when it tested its peers."""

    average: float
    """Processes that ran or were ready to run, averaged over the last minute."""
    cpus: int
    delay_seconds: float
    """How much later than requested it woke up."""

    @property
    def excess(self) -> str:
        """Why time-outs of this machine prove nothing; empty if they do."""
        if self.delay_seconds > MOST_DELAY_SECONDS:
            return f"overloaded: it wakes up {self.delay_seconds:.1f} s late"
        if self.average > MOST_LOAD_PER_CPU * self.cpus:
            return f"overloaded: load {self.average:.0f} on {self.cpus} CPUs"
        return ""


def parse_load(lines: Lines) -> MachineLoad:
    """Read what MEASURE_LOAD prints below its header."""
    shown: list[str] = []
    for line in lines:
        if NUMBERS.fullmatch(line.strip()):
            shown.append(line)
        else:
            lines.unknown(line)
    text = "\n".join(shown)
    match = LOAD_TEXT.fullmatch(text)
    average = re.fullmatch(r"\d{1,6}(\.\d{1,4})?", match[1], re.ASCII) if match else None
    if not match or not average:
        raise ParseError("expected the load of the machine", line=text.strip()[:80])
    delay = float(match[4]) - float(match[3]) - PAUSE_SECONDS
    return MachineLoad(average=float(match[1]), cpus=max(1, int(match[2])), delay_seconds=round(max(0.0, delay), 2))


def in_batches(calls: Sequence[str]) -> str:
    """Return shell lines that run the calls in the background, AT_ONCE at a time."""
    batches = [calls[start : start + AT_ONCE] for start in range(0, len(calls), AT_ONCE)]
    return "\n".join(" & ".join(batch) + " & wait" for batch in batches)
