"""Numbers that rules about a Nexus judge by: counters of a port from all sources, and ECN thresholds by its speed.

For thresholds, switches use bytes, but what matters is time: how long a packet waits before it is marked. Published
pairs lie between 12 microseconds (150 kbytes at 100 Gb/s) and 240 (300 kbytes at 10 Gb/s). Below 5, single bursts are
marked and links idle; above 250, buffers fill and PFC pauses the sender before ECN slows it down. What railbed enters
is scaled with the speed below 25 Gb/s: 150 kbytes are 120 microseconds at 10 Gb/s, where PFC often pauses first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from railbed.check.shared.nexus_qos import speed_gbps
from railbed.model.cluster import Policy
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import find_port
from railbed.parsing.nexus.qos import Wred
from railbed.parsing.nexus.queuing import PortQueues
from railbed.probes.nexus import errors, interface, queuing, watchdog
from railbed.probes.nexus.watchdog import WatchedPort
from railbed.rules.site import SwitchPortView, SwitchView

COUNTER_PROBES: tuple[Probe[Any], ...] = (queuing.PROBE, interface.PROBE, watchdog.PROBE, errors.PROBE)
"""What `counters_of` reads; the last two only if a switch has them."""
DAMAGED = ("crc", "stomped_crc", "rx_errors", "tx_errors", "runts", "giants")
ERRORS = ("align_err", "fcs_err", "symbol_err", "undersize")
LOSSES = frozenset({"no-drop queue drops", "watchdog shutdowns", "watchdog drops", *DAMAGED, *ERRORS})
CONGESTION = frozenset(
    {"pauses sent", "pauses received", "ECN marks", "drops in other queues", "output discards", "WRED drops"}
)


def is_loss(name: str) -> bool:
    """Whether a counter counts packets that the fabric should not have lost."""
    return name in LOSSES or name.startswith("ingress ")


def is_congestion(name: str) -> bool:
    """Whether a counter shows that more was sent than a port could carry."""
    return name in CONGESTION


def counters_of(port: SwitchPortView, group: str, *, again: bool) -> dict[str, int]:
    """Return the counters of a port in the first or the second reading, or end this judgement as unknown."""
    switch, name = port.switch, port.port.name
    queues = find_port((switch.again if again else switch.read)(queuing.PROBE).ports, name)
    link = find_port((switch.again if again else switch.read)(interface.PROBE).ports, name)
    watched = (switch.try_again if again else switch.try_read)(watchdog.PROBE)
    damaged = (switch.try_again if again else switch.try_read)(errors.PROBE)
    counters: dict[str, int] = {}
    if queues:
        counters |= _queue_counters(queues, group)
    if link:
        counters |= {key: link.counters[key] for key in DAMAGED if key in link.counters}
        if "tx_discards" in link.counters:
            counters["output discards"] = link.counters["tx_discards"]
    counters |= _watchdog_counters(find_port(watched.ports, name) if watched else None)
    own = find_port(damaged.ports, name) if damaged else None
    return counters | {key: own[key] for key in ERRORS if own and key in own}


def _queue_counters(queues: PortQueues, group: str) -> dict[str, int]:
    counters: dict[str, int] = {}
    own = queues.queues[group].counters if group in queues.queues else {}
    others = [queue.counters for name, queue in queues.queues.items() if name != group]
    if "drop_packets" in own:
        counters["no-drop queue drops"] = own["drop_packets"] + own.get("watchdog_drop_packets", 0)
    if "ecn_packets" in own:
        counters["ECN marks"] = own["ecn_packets"]
    if any("drop_packets" in counted for counted in others):
        counters["drops in other queues"] = sum(counted.get("drop_packets", 0) for counted in others)
    if queues.pauses:
        counters["pauses sent"] = sum(pause.sent for pause in queues.pauses.values())
        counters["pauses received"] = sum(pause.received for pause in queues.pauses.values())
    for name, count in queues.ingress.items():
        shown = name.removesuffix("_packets").replace("_", " ")
        counters["WRED drops" if name == "wred_drop_packets" else f"ingress {shown}s"] = count
    return counters


def _watchdog_counters(watched: WatchedPort | None) -> dict[str, int]:
    queues = list(watched.queues.values()) if watched else []
    if not queues:
        return {}
    return {
        "watchdog shutdowns": sum(queue.counters.get("shutdowns", 0) for queue in queues),
        "watchdog drops": sum(queue.counters.get("dropped", 0) for queue in queues),
    }


EARLIEST_US, LATEST_US = 5.0, 250.0
PROBABILITY = 7
BY_SPEED = ((50.0, 150, 1500), (100.0, 150, 3000), (200.0, 475, 3000), (400.0, 950, 3000), (float("inf"), 1900, 6000))
"""Speed in Gb/s up to which a pair in kbytes applies: published for 100 and 400 Gb/s, scaled between them."""
USUAL_GBPS = 100.0
SCALED_BELOW_GBPS = 25.0
LEAST_KBYTES = 20
"""Two packets of 9216 bytes: fewer would mark every burst, at whatever speed."""


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
    speed = gbps or USUAL_GBPS
    low, high = next((low, high) for limit, low, high in BY_SPEED if speed <= limit)
    if speed < SCALED_BELOW_GBPS:
        scale = speed / SCALED_BELOW_GBPS
        low, high = max(LEAST_KBYTES, round(low * scale)), max(10 * LEAST_KBYTES, round(high * scale))
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
