"""All cards of a rail have the same driver and firmware.

What
----
`ethtool -i` shows one driver and one firmware version on all interfaces of a rail.

Why
---
Two firmware versions can differ in their congestion control defaults, adaptive retransmission and bugs. One node with
another version is then slower than its peers, every collective waits for it, and nothing in its configuration shows
why.

Fix
---
Update all cards to the most common version (`mlxfwmanager`, `mlxup`, or the vendor's tool), then reset the card or
reboot the node.

Source
------
NVIDIA's release notes of the ConnectX firmware and of DOCA-OFED name the pairs of versions that are tested together.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import group_names, some
from railbed.model.text import plural
from railbed.probes import ethtool_driver
from railbed.rules.judgement import Judgement, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import RailView

EXPECTED = "one driver and firmware"


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare the ports of a rail."""
    versions = _versions(rail)
    if len(versions) < 2:
        yield unknown(expected=EXPECTED, observed=f"known for {len(versions)} of {len(rail.ports)} ports")
    elif len(set(versions.values())) == 1:
        yield ok(expected=EXPECTED, observed=f"{next(iter(versions.values()))} on {plural(len(versions), 'port')}")
    else:
        groups = group_names(versions)
        odd, names = next(iter(groups.items()))
        yield warn(
            expected=EXPECTED,
            observed=f"{len(groups)} versions; {some(names, 2)}: {odd}",
            evidence="\n".join(f"{version}: {', '.join(ports)}" for version, ports in groups.items()),
        )


def _versions(rail: RailView) -> dict[str, str]:
    versions = {}
    for port in rail.ports:
        drivers = port.node.try_read(ethtool_driver.PROBE)
        driver = drivers.interfaces.get(port.port.netdev) if drivers else None
        if driver and driver.driver:
            versions[port.subject] = f"{driver.driver} {driver.firmware or ''}".strip()
    return versions


def _unless(rail: RailView) -> str:
    return "fewer than two ports answered" if len(rail.ports) < 2 else ""


RULE = Rule(
    name="driver_equal",
    title="equal driver and firmware on a rail",
    scope="rail",
    stage="card",
    needs=(ethtool_driver.PROBE,),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
