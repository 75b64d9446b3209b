"""For rules over a rail: the facts of its ports, and which nodes differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from railbed.check.shared.wording import some
from railbed.model.probe import Probe
from railbed.model.reading import Known, Unknown
from railbed.rules.judgement import Judgement, unknown
from railbed.rules.site import PortView, RailView

F = TypeVar("F")


def rdma_ports(rail: RailView) -> list[PortView]:
    """Return the ports of a rail that have an RDMA device in the cluster file."""
    return [port for port in rail.ports if port.port.rdma is not None]


def read_ports(ports: list[PortView], probe: Probe[F]) -> tuple[list[tuple[PortView, F]], list[PortView]]:
    """Return the facts of the ports that were read, and the ports that were not."""
    readings = [(port, port.node.facts.read(probe)) for port in ports]
    known = [(port, reading.facts) for port, reading in readings if isinstance(reading, Known)]
    return known, [port for port, reading in readings if isinstance(reading, Unknown)]


def unread_findings(ports: list[PortView], probe: Probe[object], expected: str) -> Iterator[Judgement]:
    """Yield one unknown for each port whose facts are missing, unless its whole node failed."""
    for port in ports:
        reading = port.node.facts.read(probe)
        if isinstance(reading, Unknown) and not reading.device_failed:
            yield unknown(
                expected=expected,
                observed=reading.reason,
                remedy=reading.remedy,
                evidence=reading.evidence,
                subject=port.subject,
            )


def by_value(values: Mapping[str, object]) -> str:
    """List names by value, `3 on a, c; 5 on b`, the most common value first."""
    holders: dict[object, list[str]] = {}
    for holder, value in values.items():
        holders.setdefault(value, []).append(holder)
    ordered = sorted(holders.items(), key=lambda item: (-len(item[1]), str(item[0])))
    return "; ".join(f"{value} on {some(names)}" for value, names in ordered)
