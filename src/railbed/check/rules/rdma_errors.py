"""The error counters of the RDMA port do not grow.

What
----
Between two readings, no counter of loss, damage, missing receive buffers or ignored congestion notifications has moved.
Earlier counts are fine, and are shown as evidence. A counter that the card does not have is not zero.

Why
---
On a lossless fabric RDMA loses nothing. RoCE retransmits everything from the first lost packet, so that one loss in a
thousand halves the bandwidth: steps become slow and uneven long before NCCL gives up with an error.

Fix
---
`out_of_sequence`, `packet_seq_err`, retransmissions: loss, look at PFC and DSCP on both ends and at switch drops.
`symbol_error`: damage, look at cable and optics. `rx_icrc_encapsulated`: a card, a switch or memory changed the packet
where each cable's own checksum was right; `railbed capture --full` shows where. `out_of_buffer`, RNR: the receiving
program is late. `rp_cnp_ignored`: DCQCN is off on this card.

Source
------
Linux kernel documentation, mlx5 counters; drivers/infiniband/hw/{mlx5,mlx4,bnxt_re} and sw/rxe (names of counters);
InfiniBand architecture, annex A17 (ICRC).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railbed.check.shared.counters import ALL_NAMES, KINDS, CounterKind, grown_errors
from railbed.check.shared.port import no_rdma, not_there, rdma_name
from railbed.probes import infiniband_counters, rdma_statistic
from railbed.probes.infiniband_counters import RdmaCounters
from railbed.rules.judgement import Judgement, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "no error counter moves"
SHOWN = 2
"""Counters named in `observed`; all are in the evidence."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare both readings."""
    readings = _readings(port)
    if readings is None:
        yield not_there(port, EXPECTED)
        return
    first, second = readings
    if not ALL_NAMES & first.keys() & second.keys():
        yield unknown(expected=EXPECTED, observed="this card has none of the known counters")
        return
    growth = grown_errors(first, second)
    trouble = [_of_kind(kind, growth) for kind in KINDS if kind.names & growth.keys()]
    yield from trouble or [_still(second)]


def _readings(port: PortView) -> tuple[Mapping[str, int], Mapping[str, int]] | None:
    """Return the counters of the port, twice, from sysfs, else from netlink; None if there is no such port."""
    name = rdma_name(port)
    if port.node.try_read(infiniband_counters.PROBE) is None:
        netlink = port.node.try_read(rdma_statistic.PROBE)
        if netlink is not None and name in netlink.links:
            return netlink.links[name], port.node.again(rdma_statistic.PROBE).links.get(name, {})
    first = _counters(port.read(infiniband_counters.PROBE), name)
    second = _counters(port.node.again(infiniband_counters.PROBE), name)
    return None if first is None or second is None else (first, second)


def _counters(facts: RdmaCounters, name: str) -> Mapping[str, int] | None:
    port = facts.ports.get(name)
    return None if port is None else port.counters | port.hw_counters


def _of_kind(kind: CounterKind, growth: Mapping[str, int]) -> Judgement:
    mine = sorted(((name, growth[name]) for name in kind.names & growth.keys()), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{name} +{by}" for name, by in mine[:SHOWN])
    more = f" and {len(mine) - SHOWN} more" if len(mine) > SHOWN else ""
    return Judgement(
        verdict=kind.verdict,
        expected=EXPECTED,
        observed=f"{kind.meaning}: {named}{more}",
        remedy=kind.remedy,
        evidence="\n".join(f"{name} +{by}" for name, by in mine),
    )


def _still(counters: Mapping[str, int]) -> Judgement:
    counted = {name: value for name, value in sorted(counters.items()) if name in ALL_NAMES and value}
    evidence = "\n".join(f"{name} {value}" for name, value in counted.items())
    observed = f"none moves; {len(counted)} counted earlier" if counted else "none moves, all are 0"
    return ok(expected=EXPECTED, observed=observed, evidence=evidence)


RULE = Rule(
    name="rdma_errors",
    title="no growing RDMA error counters",
    scope="RDMA port",
    needs=(infiniband_counters.PROBE, rdma_statistic.PROBE),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
