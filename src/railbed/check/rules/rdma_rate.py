"""The rate of the RDMA port is the speed of its rail.

What
----
The `rate` that the RDMA device reports is the rail's `speed`. Without a speed in the cluster file, it is the highest
rate on the rail.

Why
---
A ring all-reduce moves at the pace of its slowest link: one port that trained at 25 instead of 100 Gb/s makes every
GPU of the job wait, on every step.

Fix
---
Look at `ethtool IF` for the negotiated speed; then cable or transceiver, the speed set on the switch port, and FEC.
If the link is meant to have this speed, correct `speed:` of the rail.

Source
------
Linux kernel documentation, ABI/stable/sysfs-class-infiniband (rate).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.port import no_rdma, not_there, rdma_device, rdma_port
from railbed.model.record import Verdict
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

TOLERANCE = 0.01
SLOW_HCA = "look at cable and transceiver, and at what the switch port allows: `iblinkinfo`"


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the port's rate with the rail's speed."""
    expected = f"{port.rail.speed:g} Gb/s" if port.rail.speed else "the highest rate on the rail"
    lacking = card_of(port).lacks(Ability.OWN_RATE)
    if lacking:
        yield skip(lacking, expected=expected)
        return
    own = rdma_port(port)
    if own is None:
        yield not_there(port, expected)
    elif own.rate_gbps is None:
        yield unknown(expected=expected, observed="the device does not report a rate")
    else:
        judgement = _compare(own.rate_gbps, port.rail.speed or _highest_on_rail(port), in_file=bool(port.rail.speed))
        is_slow_hca = port.port.is_hca and judgement.verdict is Verdict.FAIL
        yield replace(judgement, remedy=SLOW_HCA) if is_slow_hca else judgement


def _compare(rate: float, wanted: float, *, in_file: bool) -> Judgement:
    expected = f"{wanted:g} Gb/s" if in_file else f"{wanted:g} Gb/s, the highest on the rail"
    observed = f"{rate:g} Gb/s"
    if rate < wanted * (1 - TOLERANCE):
        return fail(expected=expected, observed=observed)
    if rate > wanted * (1 + TOLERANCE):
        remedy = f"write `speed: {rate:g}` at the rail, if the link is meant to be this fast"
        return warn(expected=expected, observed=observed, remedy=remedy)
    return ok(expected=expected, observed=observed)


def _highest_on_rail(port: PortView) -> float:
    return max(filter(None, port.on_rail(_rate)), default=0.0)


def _rate(port: PortView) -> float | None:
    device = rdma_device(port)
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    return own.rate_gbps if own else None


RULE = Rule(
    name="rdma_rate",
    title="RDMA rate as the rail's speed",
    scope="RDMA port",
    needs=CARD_PROBES,
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
