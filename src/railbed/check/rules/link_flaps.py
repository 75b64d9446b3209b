"""No rail link goes down between two readings.

What
----
Between two readings, neither the kernel's `carrier_changes` nor the driver's `link_down_events` of a rail interface
grows. Earlier changes are shown but are not a failure: a reboot of the switch counts as well.

Why
---
Each flap breaks the RDMA connections on the port or stops them for seconds: NCCL gives up after its retries (about
30 s) and the whole job starts again from the last checkpoint. A link that flaps once an hour ends every long run.

Fix
---
Reseat or replace cable and transceiver, look at the optical power (`ethtool -m IF`), and compare FEC at both ends
(`ethtool --show-fec IF`). `dmesg` and the switch's log show when it happened.

Source
------
Linux kernel documentation, sysfs-class-net (`carrier_changes`), mlx5 counters (`link_down_events_phy`).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.counters import FLAPS, both_links, growths
from railbed.check.shared.port import no_interface, some
from railbed.probes import ethtool_stats, ip_link
from railbed.probes.ethtool_stats import DriverStatistics
from railbed.probes.ip_link import Link
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "the link stays up"


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare two readings of the counters of link changes; those of the driver are optional."""
    netdev = port.port.netdev
    links = both_links(port)
    if links is None:
        yield no_interface(netdev)
        return
    first, second = links
    before = _changes(first, port.node.try_read(ethtool_stats.PROBE))
    after = _changes(second, port.node.try_again(ethtool_stats.PROBE))
    growth = growths(before, after)
    so_far = some([f"{name} {count}" for name, count in after.items()])
    if not before:
        yield unknown(expected=EXPECTED, observed="no counter of link changes")
    elif growth:
        yield fail(
            expected=EXPECTED, observed=some([f"{name} +{count}" for name, count in growth.items()]), evidence=so_far
        )
    else:
        yield ok(expected=EXPECTED, observed=f"no change ({so_far} before)")


def _changes(link: Link, driver: DriverStatistics | None) -> dict[str, int]:
    counts = {} if link.carrier_changes is None else {"carrier_changes": link.carrier_changes}
    counters = driver.interfaces.get(link.name) if driver else None
    return counts | {name: counters.values[name] for name in FLAPS if counters and name in counters.values}


RULE = Rule(
    name="link_flaps",
    title="links stay up",
    scope="port",
    stage="cabling",
    needs=(ip_link.PROBE, ethtool_stats.PROBE),
    judge=judge,
    doc=__doc__,
)
