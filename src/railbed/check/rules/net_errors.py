"""No error counter of a rail interface grows.

What
----
Between two readings of `ip -s link` and `ethtool -S`, no counter of errors or discards grows. Old counts that do not
grow are shown as evidence and do not count as errors. Drops by the host's software are a warning. A few packets in
the kernel's rx_dropped are normal: it also counts the LLDP, CDP and spanning-tree frames of a switch, which no program
on the host receives, and every overflow of a receive queue, which a burst of broadcasts causes on a busy host.

Why
---
RDMA is sensitive to loss: after one lost packet many cards resend everything that followed, so a loss that TCP would
not notice costs a large part of the bandwidth. Rising CRC or symbol errors indicate a cable that is about to fail in
the middle of a run; discards mean that the network is not lossless; over-long frames mean that MTUs differ.

Fix
---
crc, symbol, fcs: reseat or replace cable and transceiver. discard, fifo, missed: PFC is not at work on this priority,
or the host is too slow (PCIe, power saving). oversize, range: make the MTUs equal. pause_storm: find the host that
does not drain its data.

Source
------
Linux kernel documentation, mlx5 counters, and the names that mlx4, bnxt, i40e, ice and ixgbe give to theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.counters import both_links, growths, is_drop, is_error
from railbed.check.shared.port import no_interface, some
from railbed.model.text import plural
from railbed.probes import ethtool_stats, ip_link
from railbed.probes.ethtool_stats import DriverStatistics
from railbed.probes.ip_link import Link
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "no error counter grows"
KERNEL_DROPS = "ip.rx_dropped"
USUAL_DROPS = 10
"""How far the kernel's rx_dropped may grow between two readings on a healthy host."""

DROPS_REMEDY = "packets without a local receiver, or longer than this MTU (see mtu), or more than this host can process"


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare two readings of both sources."""
    netdev = port.port.netdev
    links = both_links(port)
    if links is None:
        yield no_interface(netdev)
        return
    first, second = links
    before = _kernel(first) | _driver(port.node.try_read(ethtool_stats.PROBE), netdev)
    after = _kernel(second) | _driver(port.node.try_again(ethtool_stats.PROBE), netdev)
    growth = growths(before, after)
    errors = {name: count for name, count in growth.items() if is_error(name)}
    drops = {name: count for name, count in growth.items() if is_drop(name) and not _is_usual(name, count)}
    evidence = "\n".join(
        f"{name} {count} (+{growth.get(name, 0)})" for name, count in after.items() if count and _is_of_interest(name)
    )
    if errors:
        yield fail(expected=EXPECTED, observed=_describe_growth(errors), evidence=evidence)
    elif drops:
        yield warn(expected=EXPECTED, observed=_describe_growth(drops), remedy=DROPS_REMEDY, evidence=evidence)
    else:
        # From here on the driver's counters are required: without them the interface cannot be known to be fine.
        port.node.outputs(ethtool_stats.PROBE)
        count = sum(1 for name in before if name in after and _is_of_interest(name))
        yield ok(expected=EXPECTED, observed=f"no new errors in {plural(count, 'counter')}", evidence=evidence)


def _is_usual(name: str, growth: int) -> bool:
    return name == KERNEL_DROPS and growth <= USUAL_DROPS


def _is_of_interest(name: str) -> bool:
    return is_error(name) or is_drop(name)


def _describe_growth(growth: dict[str, int]) -> str:
    return some([f"{name} +{count}" for name, count in growth.items()], 2)


def _kernel(link: Link) -> dict[str, int]:
    """Return the kernel's counters, under names that distinguish them from the driver's."""
    counters = {
        "ip.rx_errors": link.rx_errors,
        KERNEL_DROPS: link.rx_dropped,
        "ip.tx_errors": link.tx_errors,
        "ip.tx_dropped": link.tx_dropped,
    }
    return {name: count for name, count in counters.items() if count is not None}


def _driver(facts: DriverStatistics | None, netdev: str) -> dict[str, int]:
    counters = facts.interfaces.get(netdev) if facts else None
    return dict(counters.values) if counters else {}


RULE = Rule(
    name="net_errors",
    title="no growing error counters",
    scope="port",
    stage="cabling",
    needs=(ip_link.PROBE, ethtool_stats.PROBE),
    judge=judge,
    doc=__doc__,
)
