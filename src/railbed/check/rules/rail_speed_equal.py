"""All links of a rail run at the same speed.

What
----
If the cluster file has no `speed` for a rail, `ethtool` shows the same speed on all its interfaces.

Why
---
The slowest link sets the pace of every collective. On a mixed rail the fast ports also send more than the slow one can
take: the switch fills its buffer, pauses the others, and the whole rail suffers for one port.

Fix
---
Find the slow port: its cable, transceiver or switch port trained lower, or its card differs. Then write the intended
speed into the cluster file (`speed:` of the rail), so that each port is checked individually.

Source
------
ethtool(8). Fan-in from fast to slow ports is the usual cause of pause frames in a lossless network (IEEE 802.1Qbb).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import group_names, some
from railbed.model.text import plural
from railbed.probes import ethtool
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import RailView

EXPECTED = "one speed on all links"


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare the speeds of the ports of a rail."""
    speeds = _speeds(rail)
    known = {name: speed for name, speed in speeds.items() if speed is not None}
    if len(speeds) < 2:
        yield skip("fewer than two ports answered")
    elif len(known) < 2:
        yield unknown(expected=EXPECTED, observed=f"the speed of {len(known)} of {len(speeds)} ports is known")
    elif len(set(known.values())) == 1:
        yield ok(
            expected=EXPECTED, observed=f"{next(iter(known.values())) / 1000:g} Gb/s on {plural(len(known), 'port')}"
        )
    else:
        groups = group_names(known)
        yield fail(
            expected=EXPECTED,
            observed="; ".join(f"{speed / 1000:g} Gb/s: {some(names, 2)}" for speed, names in groups.items()),
            evidence="\n".join(f"{name}: {speed} Mb/s" for name, speed in known.items()),
        )


def _speeds(rail: RailView) -> dict[str, int | None]:
    speeds: dict[str, int | None] = {}
    for port in rail.ports:
        facts = port.node.try_read(ethtool.PROBE)
        settings = facts.interfaces.get(port.port.netdev) if facts else None
        speeds[port.subject] = settings.speed_mbps if settings else None
    return speeds


def _unless(rail: RailView) -> str:
    if rail.rail.speed is not None:
        return "the rail's speed is in the cluster file: see link_speed"
    return "" if rail.ports else "fewer than two ports answered"


RULE = Rule(
    name="rail_speed_equal",
    title="equal speed on a rail",
    scope="rail",
    needs=(ethtool.PROBE,),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
