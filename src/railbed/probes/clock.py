"""The machine's clock (`date`), read first and separately, to keep the interval of our clock around it short."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe

# A `date` without nanoseconds (busybox) prints nothing, `N` or `%N` in their place.
TIME = re.compile(r"(?P<seconds>\d{1,12})(?:\.(?P<nanoseconds>\d{9})|\.?%?N?)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClock:
    """The time on a machine."""

    epoch: float
    """Seconds since 1970."""
    resolution: float
    """The true reading lies in [epoch, epoch + resolution): 1 second if `date` has no nanoseconds."""


def parse(text: str) -> NodeClock:
    """Read `date +%s.%N`."""
    match = TIME.fullmatch(text.strip())
    if not match:
        raise ParseError("expected seconds since 1970", line=text.strip()[:80])
    seconds, nanoseconds = match["seconds"], match["nanoseconds"]
    if nanoseconds is None:
        return NodeClock(epoch=float(seconds), resolution=1.0)
    return NodeClock(epoch=float(f"{seconds}.{nanoseconds}"), resolution=0.0)


PROBE = Probe(
    name="clock",
    title="the machine's time",
    command="date +%s.%N",
    parse=parse,
    facts=NodeClock,
    early=True,
)
