"""Counters of a switch port from all sources, under descriptive names."""

from __future__ import annotations

from typing import Any

from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import find_port
from railbed.parsing.nexus.queuing import PortQueues
from railbed.probes.nexus import errors, interface, queuing, watchdog
from railbed.probes.nexus.watchdog import WatchedPort
from railbed.rules.site import SwitchPortView

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
