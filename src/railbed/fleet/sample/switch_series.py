"""The series of a switch, from the facts of its probes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from railbed.model.meters import SeriesKey
from railbed.parsing.nexus.queuing import PortQueues, SwitchQueues
from railbed.probes.nexus.errors import PortErrors
from railbed.probes.nexus.interface import Interfaces
from railbed.probes.nexus.pfc import SwitchPfc
from railbed.probes.nexus.pfc_detail import SwitchPfcDetail
from railbed.probes.nexus.watchdog import Watchdog

OF_QUEUES = {
    "tx_bytes": "queue_tx_bytes",
    "tx_packets": "queue_tx_packets",
    "drop_packets": "queue_drop_packets",
    "ecn_packets": "queue_ecn_marked_packets",
    "depth_bytes": "queue_depth_bytes",
}
OF_WATCHDOG = {"shutdowns": "watchdog_shutdowns", "restored": "watchdog_restores"}
OF_INTERFACES = {"rx_bytes": "switch_rx_bytes", "tx_bytes": "switch_tx_bytes"}
OF_ERRORS = {"fcs_err": "switch_crc_errors", "stomped_crc": "switch_stomped_packets", "giants": "switch_giants"}
PHYSICAL, INTERNAL = "Ethernet", "ii"
"""Between the parts of a modular switch are ports as well, such as `ii1/1/1`."""
Values = Iterator[tuple[SeriesKey, int]]


def series_of(switch: str, facts: Mapping[str, object], cabled: Collection[str]) -> Values:
    """Yield the value of every series of the ports in the cluster file, and of all others that have a link."""
    linked = {
        name
        for reading in facts.values()
        if isinstance(reading, Interfaces)
        for name, port in reading.ports.items()
        if port.up and name.startswith(PHYSICAL)
    }
    ports = {*cabled, *linked}
    for reading in facts.values():
        for meter, port, part, value in _values(reading):
            if port in ports or port.startswith(INTERNAL):
                yield SeriesKey(switch, meter, port, part), value


def _values(reading: object) -> Iterator[tuple[str, str, str, int]]:
    """Yield meter, port, part and value of everything that a reading counts."""
    match reading:
        case SwitchQueues(ports=queues):
            for name, port in queues.items():
                yield from ((meter, name, part, value) for meter, part, value in _of_queues(port))
        case SwitchPfc(ports=pfc):
            for name, pauses in pfc.items():
                yield "switch_pause_rx_frames", name, "", pauses.received
                yield "switch_pause_tx_frames", name, "", pauses.sent
        case SwitchPfcDetail():
            yield from _of_priorities(reading)
        case Watchdog():
            yield from _of_watchdog(reading)
        case PortErrors(ports=counters):
            yield from _named(OF_ERRORS, counters)
        case Interfaces(ports=interfaces):
            yield from _named(OF_INTERFACES, {name: interface.counters for name, interface in interfaces.items()})


def _of_priorities(detail: SwitchPfcDetail) -> Iterator[tuple[str, str, str, int]]:
    for name, frames in detail.ports.items():
        for priority, value in enumerate(frames.received):
            yield "switch_priority_pause_rx_frames", name, str(priority), value
        for priority, value in enumerate(frames.sent):
            yield "switch_priority_pause_tx_frames", name, str(priority), value


def _of_watchdog(watchdog: Watchdog) -> Iterator[tuple[str, str, str, int]]:
    for name, port in watchdog.ports.items():
        for group, queue in port.queues.items():
            yield from _named(OF_WATCHDOG, {name: queue.counters}, group)


def _named(
    meters: Mapping[str, str], ports: Mapping[str, Mapping[str, int]], part: str = ""
) -> Iterator[tuple[str, str, str, int]]:
    for port, counters in ports.items():
        for counter, meter in meters.items():
            if counter in counters:
                yield meter, port, part, counters[counter]


def _of_queues(port: PortQueues) -> Iterator[tuple[str, str, int]]:
    for group, queue in port.queues.items():
        if group.isdigit():  # the others are the switch's own
            for counter, meter in OF_QUEUES.items():
                if counter in queue.counters:
                    yield meter, group, queue.counters[counter]
    wred = port.ingress.get("wred_drop_packets")
    if wred is not None:
        yield "queue_wred_drop_packets", "", wred
    if drops := [value for name, value in port.ingress.items() if name != "wred_drop_packets"]:
        yield "ingress_drop_packets", "", sum(drops)
