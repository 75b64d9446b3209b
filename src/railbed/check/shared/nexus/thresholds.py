"""ECN thresholds of a queue, by the speed of the port.

Switches use bytes, but what matters is time: how long a packet waits before it is marked. Published pairs lie
between 12 microseconds (150 kbytes at 100 Gb/s) and 240 (300 kbytes at 10 Gb/s). Below 5, single bursts are marked and
links idle; above 250, buffers fill and PFC pauses the sender before ECN slows it down.
"""

from __future__ import annotations

from dataclasses import dataclass

from railbed.check.shared.nexus.qos import speed_gbps
from railbed.model.cluster import Policy
from railbed.parsing.nexus.qos import Wred
from railbed.rules.site import SwitchPortView, SwitchView

EARLIEST_US, LATEST_US = 5.0, 250.0
PROBABILITY = 7
BY_SPEED = ((50.0, 150, 1500), (100.0, 150, 3000), (200.0, 475, 3000), (400.0, 950, 3000), (float("inf"), 1900, 6000))
"""Speed in Gb/s up to which a pair in kbytes applies: published for 100 and 400 Gb/s, scaled between them."""
USUAL_GBPS = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Random early detection as it should be configured."""

    low_kbytes: int
    high_kbytes: int
    probability: int

    @property
    def line(self) -> str:
        """The line of a queue's configuration."""
        return (
            f"random-detect minimum-threshold {self.low_kbytes} kbytes maximum-threshold {self.high_kbytes} kbytes "
            f"drop-probability {self.probability} weight 0 ecn"
        )

    @property
    def shown(self) -> str:
        """A short description."""
        return f"{self.low_kbytes} to {self.high_kbytes} kbytes"


def thresholds_for(policy: Policy, gbps: float | None) -> Thresholds:
    """Return the cluster file's thresholds; what it leaves out depends on the speed."""
    low, high = next((low, high) for limit, low, high in BY_SPEED if (gbps or USUAL_GBPS) <= limit)
    return Thresholds(
        low_kbytes=policy.ecn_low_kbytes or low,
        high_kbytes=policy.ecn_high_kbytes or max(high, policy.ecn_low_kbytes or low),
        probability=policy.ecn_probability or PROBABILITY,
    )


def slowest_gbps(switch: SwitchView) -> float | None:
    """Return the speed of the slowest port with a node: ports that share a policy share its thresholds."""
    speeds = [speed for port in switch.ports if (speed := speed_gbps(port))]
    return min(speeds, default=None)


def unsuitable(wred: Wred, policy: Policy, port: SwitchPortView) -> str:
    """Return why thresholds do not suit a port, for a line of a table; empty if they do, or nothing is known."""
    gbps = speed_gbps(port)
    if wred.low_kbytes is None or wred.high_kbytes is None:
        return ""
    if policy.ecn_low_kbytes or policy.ecn_high_kbytes:
        return _other_than_filed(wred, policy)
    if gbps is None:
        return ""
    waiting = wred.low_kbytes * 8 / gbps
    if EARLIEST_US <= waiting <= LATEST_US:
        return ""
    when = "too early" if waiting < EARLIEST_US else "too late"
    return f"marks {when}: {wred.low_kbytes:g} kbytes are {waiting:.0f} µs at {gbps:g} Gb/s"


def _other_than_filed(wred: Wred, policy: Policy) -> str:
    wanted = (policy.ecn_low_kbytes or wred.low_kbytes, policy.ecn_high_kbytes or wred.high_kbytes)
    if (wred.low_kbytes, wred.high_kbytes) == wanted:
        return ""
    return f"marks from {wred.low_kbytes:g} to {wred.high_kbytes:g} kbytes"
