"""The nodes, switches and links of a run's cluster file, and how busy each link was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from railbed.errors import RailbedError
from railbed.model.cabling import cable_of, partner_of
from railbed.model.cluster import Cluster, Port
from railbed.model.meters import SeriesKey
from railbed.store.find import cluster_to_read
from railbed.store.timeline import Timeline
from railbed.web.page.numbers import Floats, short
from railbed.web.page.parameters import TimeWindow

BITS = 8.0
SENT, RECEIVED = ("rdma_tx_bytes", "net_tx_bytes"), ("rdma_rx_bytes", "net_rx_bytes")
"""Meters of a node's port. The larger one counts: whether the interface counts RDMA as well depends on the card."""


@dataclass(frozen=True, slots=True)
class TopologyLink:
    """A cable, or a node's port on a rail whose switch is not in the cluster file."""

    node: str
    port: str
    peer: str
    peer_port: str
    rail: str
    speed: float | None
    """In Gb/s."""

    def series(self, own: Sequence[str], of_switch: str) -> list[SeriesKey]:
        """Return the series that may count one direction; the switch counts the same bytes at its own port."""
        mine = [SeriesKey(self.node, meter, self.port) for meter in own]
        return [*mine, SeriesKey(self.peer, of_switch, self.peer_port)] if self.peer_port else mine


@dataclass(frozen=True, slots=True)
class Topology:
    """The devices and links of a cluster."""

    nodes: Sequence[str]
    switches: Sequence[str]
    """Switches, and rails without one, which stand in for it."""
    links: Sequence[TopologyLink]

    def describe(self) -> Mapping[str, Any]:
        """Return it for the page."""
        return {
            "nodes": self.nodes,
            "switches": self.switches,
            "links": [[link.node, link.port, link.peer, link.peer_port, link.rail, link.speed] for link in self.links],
        }

    def rates(self, timeline: Timeline, window: TimeWindow) -> list[Any]:
        """Return the mean and peak rate of each link in bit/s, sent and received by the node; None if not measured."""
        present = set(timeline.series())
        return [
            [
                _busiest(timeline, [series for series in link.series(own, of_switch) if series in present], window)
                for own, of_switch in ((SENT, "switch_rx_bytes"), (RECEIVED, "switch_tx_bytes"))
            ]
            for link in self.links
        ]


def topology_of(folder: Path) -> Topology | None:
    """Return the topology of a run; None if it has no readable cluster file or no ports."""
    try:
        cluster = cluster_to_read(folder)
    except (RailbedError, OSError):
        return None
    links = [_link(cluster, node, port) for node, port in cluster.ports() if _is_first_end(cluster, node, port)]
    peers = {link.peer: None for link in links if link.peer not in cluster.nodes}
    return Topology(list(cluster.nodes), [*cluster.switches, *(peers.keys() - cluster.switches.keys())], links)


def _is_first_end(cluster: Cluster, node: str, port: Port) -> bool:
    """Whether a cable between two nodes is drawn from this end."""
    partner = partner_of(cluster, node, port)
    return partner is None or node < partner[0]


def _link(cluster: Cluster, node: str, port: Port) -> TopologyLink:
    speed = cluster.rails[port.rail].speed
    if cable := cable_of(cluster, node, port):
        return TopologyLink(node, port.netdev, cable.switch, cable.switch_port.name, port.rail, speed)
    if partner := partner_of(cluster, node, port):
        return TopologyLink(node, port.netdev, partner[0], partner[1].netdev, port.rail, speed)
    return TopologyLink(node, port.netdev, port.rail, "", port.rail, speed)


def _busiest(timeline: Timeline, series: Sequence[SeriesKey], window: TimeWindow) -> list[float] | None:
    """Return mean and peak of the series with the largest mean.

    The mean is that of the buckets' middles: exact if a bucket has one sample, close enough for the width of a line.
    """
    rates = []
    for identity in series:
        drawn = timeline.drawn(identity, window.start, window.end, window.buckets)
        if drawn.times.size and not np.isnan(drawn.high).all():
            middle: Floats = (drawn.low + drawn.high) / 2
            rates.append((float(np.nanmean(middle)), float(np.nanmax(drawn.high))))
    return short(np.array(max(rates)) * BITS).tolist() if rates else None
