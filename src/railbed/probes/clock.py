"""The machine's clock (`date`), read first and separately, to keep the interval of our clock around it short."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

# A `date` without nanoseconds (busybox) prints nothing, `N` or `%N` in their place.
TIME = re.compile(r"(?P<seconds>\d{1,12})(?:\.(?P<nanoseconds>\d{9})|\.?%?N?)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClock(TextFacts):
    """The time on a machine."""

    epoch: float
    """Seconds since 1970."""
    resolution: float
    """The true reading lies in [epoch, epoch + resolution): 1 second if `date` has no nanoseconds."""


def parse(text: str) -> NodeClock:
    """Read `date +%s.%N`."""
    lines = Lines(text)
    epoch = resolution = None
    for line in lines:
        match = TIME.fullmatch(line.strip())
        if not match or epoch is not None:
            lines.unknown(line)
        elif match["nanoseconds"] is None:
            epoch, resolution = float(match["seconds"]), 1.0
        else:
            epoch, resolution = float(f"{match['seconds']}.{match['nanoseconds']}"), 0.0
    lines.require(epoch is not None, "expected seconds since 1970")
    return NodeClock(epoch=epoch or 0.0, resolution=resolution or 0.0, not_understood=lines.not_understood)


PROBE = Probe(
    name="clock",
    title="the machine's time",
    command="date +%s.%N",
    parse=parse,
    facts=NodeClock,
    early=True,
)
