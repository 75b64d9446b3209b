"""The clocks of all nodes agree.

What
----
Read the time of each node. It answered at some moment between our request and the end of its reply, so the node's
offset from our clock lies in an interval. Offsets are compared with the median of all nodes and our own clock. A
difference of more than 1 s fails and of more than 0.1 s warns, but only if the intervals prove it: a slow connection
is never mistaken for a wrong clock.

Why
---
To find the rank that stopped first in a hang, people compare the logs of nodes by time; with clocks that differ,
the answer is wrong. Counters, pause frames and training steps of several nodes lie on one time axis only if clocks
agree. Far-off clocks also break logins (Kerberos, certificates) and rendezvous leases.

Fix
---
Let one time service run on every node and follow the same servers (`apt install chrony`, or `timedatectl set-ntp
true`); correct a large offset at once with `chronyc makestep`.

Source
------
RFC 5905 (NTP), section 8: an offset is known to within half the round trip; chronyc(1), `makestep`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railbed.check.shared.nodes import gather, too_few
from railbed.model.reading import Output
from railbed.probes import clock
from railbed.rules.judgement import Judgement, fail, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import Site

FAIL_SECONDS, WARN_SECONDS = 1.0, 0.1
EXPECTED = f"within {WARN_SECONDS:g} s of the others"
REMEDY = "chronyc makestep; or timedatectl set-ntp true"


@dataclass(frozen=True, slots=True)
class Interval:
    """Where an offset lies, in seconds."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The best estimate."""
        return (self.low + self.high) / 2

    def minus(self, other: Interval) -> Interval:
        """Return where the difference of two offsets lies."""
        return Interval(self.low - other.high, self.high - other.low)

    @property
    def least(self) -> float:
        """The least distance from zero."""
        return max(0.0, self.low, -self.high)

    @property
    def most(self) -> float:
        """The greatest distance from zero."""
        return max(abs(self.low), abs(self.high))


NO_OFFSET = Interval(0.0, 0.0)


def judge(site: Site) -> Iterator[Judgement]:
    """Compare the offset of every node with the median."""
    clocks = gather(site, clock.PROBE, lambda facts: facts, EXPECTED)
    yield from clocks.missing
    if not clocks.comparable:
        yield from too_few(site, clocks)
        return
    answered = [node for node in site.nodes if node.name in clocks.values]
    offsets = {node.name: _offset(node.output(clock.PROBE), clocks.values[node.name]) for node in answered}
    reference = _median([NO_OFFSET, *offsets.values()])
    for name, offset in offsets.items():
        yield _judge_offset(name, NO_OFFSET if offset is reference else offset.minus(reference))


def _offset(output: Output, facts: clock.NodeClock) -> Interval:
    return Interval(facts.epoch - output.received, facts.epoch + facts.resolution - output.sent)


def _median(offsets: list[Interval]) -> Interval:
    return sorted(offsets, key=lambda offset: offset.middle)[(len(offsets) - 1) // 2]


def _judge_offset(name: str, difference: Interval) -> Judgement:
    if difference.least > FAIL_SECONDS:
        return fail(subject=name, expected=EXPECTED, observed=_describe(difference), remedy=REMEDY)
    if difference.least > WARN_SECONDS:
        return warn(subject=name, expected=EXPECTED, observed=_describe(difference), remedy=REMEDY)
    if difference.most > FAIL_SECONDS:
        slow = f"inconclusive: the answer took {difference.high - difference.low:.1f} s"
        return unknown(subject=name, expected=EXPECTED, observed=slow)
    return ok(subject=name, expected=EXPECTED, observed=f"at most {difference.most:.3f} s apart")


def _describe(difference: Interval) -> str:
    return f"{difference.least:.2f} s {'ahead' if difference.low > 0 else 'behind'}, or more"


RULE = Rule(
    name="clock_offset",
    title="the clocks of all nodes agree",
    scope="cluster",
    needs=(clock.PROBE,),
    judge=judge,
    doc=__doc__,
)
