"""Other programs use the link of a node.

What
----
Programs that are not part of the training moved much data over a rail, while packets waited in the interface's queue,
or the ranks waited longer than usual for the network, or ended no step at all. Or they took a fifth of the speed that
the cluster file has for the rail. Traffic that disturbs nothing gives no verdict.

The sampler counts the bytes of every TCP connection, and which of them processes of the training hold; the rest of
what the interface carried is foreign. Peers and programs are known for TCP connections. UDP has no connections, and
RDMA of other programs is only told apart if the training does not use RDMA.

Why
---
A link that is full is not slow: with the other traffic gone, the training is as fast as before. Collectives wait
for their slowest link, so one copy of a file between two nodes slows down all of them.

Fix
---
Move the traffic to another network or another time, or limit its rate. On the node, `ss -tinp` lists connections with
their bytes and programs, `ss -uanp` what uses UDP.

Source
------
Linux, sock_diag (tcpi_bytes_acked, tcpi_bytes_received) and /proc/PID/fd; iproute2, tc -s qdisc (backlog: bytes that
wait).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np

from railbed.diagnose.shared.foreign import Foreign, describe_foreign, foreign_on, usually_carried
from railbed.diagnose.shared.network import SlowNetwork
from railbed.diagnose.shared.steps import steps_of
from railbed.model.record import Verdict
from railbed.model.text import duration, size
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.signal import median_of
from railbed.rules.site import PortView, RailView, Site

SHARE_OF_SPEED = 0.2
STANDSTILL_SECONDS, STANDSTILL_STEPS = 3.0, 4
"""A training without a step for as long as both stands still, which may be until its ranks start again."""
LONGER, SHARE_OF_STEP = 1.5, 0.1
"""How many times as long as usual ranks wait for the network, and by which share of a usual step at least."""


def judge(rail: RailView) -> Iterator[Judgement]:
    """Look at what each node sent, then at what came from machines that are not sampled."""
    usual = usually_carried(rail)
    measured = [port for port in rail.ports if port.try_signal("tcp_training_tx_bytes")]
    if not measured:
        raise Unsampled("tcp_training_tx_bytes", f"any port of {rail.name}")
    sent = [foreign for port in measured for foreign in foreign_on(port, "tx", usual)]
    received = [foreign for port in measured for foreign in foreign_on(port, "rx", usual)]
    for foreign in sent:
        ends = [end.port.node.name for end in received if not end.has_peers and _is_same(end, foreign)]
        yield from _judge_foreign(foreign, ends)
    for foreign in received:
        if not any(_is_same(foreign, other) for other in sent):
            yield from _judge_foreign(foreign)


def _is_same(received: Foreign, sent: Foreign) -> bool:
    """Whether a node may have sent what another one received at the same time."""
    together = received.span.widen(received.net.interval).overlaps(sent.span)
    return together and received.port.node.name != sent.port.node.name


def _judge_foreign(foreign: Foreign, ends: Sequence[str] = ()) -> Iterator[Judgement]:
    backlog = foreign.port.try_signal("qdisc_backlog_bytes") if foreign.direction == "tx" else None
    waits = bool(backlog and median_of(backlog.within(foreign.span)) > 0)
    longer = _longer_wait(foreign.port.site, foreign.span)
    still = _standstill(foreign.port.site, foreign.span)
    speed = _speed(foreign.port)
    if not (waits or longer or still or (speed and foreign.rate >= SHARE_OF_SPEED * speed)):
        return
    effect = f"; {size(backlog.mean(foreign.span))} waited in the queue" if backlog and waits else ""
    if longer:
        effect += (
            f"; ranks waited {duration(longer.seconds)} per step for the network, usually {duration(longer.usual)}"
        )
    if still:
        effect += f"; no step ended for {duration(still)}"
    judgement = fail(
        f"{describe_foreign(foreign, ends)}{effect}",
        *foreign.signals,
        *([backlog] if backlog and waits else []),
        span=foreign.span,
        certainty="certain" if foreign.has_peers and (waits or not (longer or still)) else "likely",
        subject=foreign.port.subject,
        expected="no other traffic on the rails of a training",
        evidence="\n".join(foreign.programs),
    )
    yield judgement if waits or longer or still else replace(judgement, verdict=Verdict.WARN)


def _longer_wait(site: Site, span: Span) -> SlowNetwork | None:
    """Return how long ranks waited for the network in a span, if that was longer than usual."""
    with suppress(Unsampled):  # no training, or too short
        waits, steps = (steps_of(site, meter).values() for meter in ("allreduce_exposed_seconds", "step_seconds"))
        # The rank that waits the least waits only for the network, not for other ranks.
        seconds = min((wait.middle_over_time(span) for wait in waits if len(wait.within(span))), default=0.0)
        usual = median_of([wait.usual for wait in waits])
        if seconds >= LONGER * usual and seconds - usual >= SHARE_OF_STEP * median_of([step.usual for step in steps]):
            return SlowNetwork(span, seconds, usual)
    return None


def _standstill(site: Site, span: Span) -> float:
    """Return for how long no rank ended a step, if that began in a span and is much longer than a step; else 0."""
    steps = site.run.signals_of("step_seconds")
    if not steps:
        return 0.0
    ends = np.unique(np.concatenate([signal.times[np.isfinite(signal.values)] for signal in steps]))
    least = max(STANDSTILL_SECONDS, STANDSTILL_STEPS * median_of([signal.usual for signal in steps]))
    gaps = (end - start for start, end in pairwise(ends) if span.start <= start <= span.end)
    return max((float(gap) for gap in gaps if gap >= least), default=0.0)


def _speed(port: PortView) -> float | None:
    """Return the speed that the cluster file has for a port's rail, in bytes per second."""
    speed = port.rail.speed
    return speed * 1e9 / 8 if speed else None


RULE = Rule(
    name="link_shared",
    title="other programs use a node's link",
    scope="rail",
    needs=("tcp_training_tx_bytes", "tcp_foreign_tx_bytes", "net_tx_bytes"),
    judge=judge,
    doc=__doc__,
)
