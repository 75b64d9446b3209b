"""The nodes, switches and links of a run's cluster file, and how busy each link was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from railbed.errors import RailbedError
from railbed.model.cabling import Topology, TopologyLink, topology
from railbed.model.meters import SeriesKey
from railbed.store.find import cluster_to_read
from railbed.store.timeline import Timeline
from railbed.web.page.numbers import Floats, short
from railbed.web.page.parameters import TimeWindow

BITS = 8.0
SENT, RECEIVED = ("rdma_tx_bytes", "net_tx_bytes"), ("rdma_rx_bytes", "net_rx_bytes")
"""Meters of a node's port. The larger one counts: whether the interface counts RDMA as well depends on the card."""


def topology_of(folder: Path) -> Topology | None:
    """Return the topology of a run; None if it has no readable cluster file or no ports."""
    try:
        return topology(cluster_to_read(folder))
    except (RailbedError, OSError):
        return None


def describe_topology(drawn: Topology) -> Mapping[str, Any]:
    """Return it for the page."""
    return {
        "nodes": drawn.nodes,
        "switches": drawn.switches,
        "links": [[link.node, link.port, link.peer, link.peer_port, link.rail, link.speed] for link in drawn.links],
    }


def link_rates(drawn: Topology, timeline: Timeline, window: TimeWindow) -> list[Any]:
    """Return the mean and peak rate of each link in bit/s, sent and received by the node; None if not measured."""
    present = set(timeline.series())
    return [
        [
            _busiest(timeline, [series for series in _series(link, own, of_switch) if series in present], window)
            for own, of_switch in ((SENT, "switch_rx_bytes"), (RECEIVED, "switch_tx_bytes"))
        ]
        for link in drawn.links
    ]


def _series(link: TopologyLink, own: Sequence[str], of_switch: str) -> list[SeriesKey]:
    """Return the series that may count one direction; the switch counts the same bytes at its own port."""
    mine = [SeriesKey(link.node, meter, link.port) for meter in own]
    return [*mine, SeriesKey(link.peer, of_switch, link.peer_port)] if link.peer_port else mine


def _busiest(timeline: Timeline, series: Sequence[SeriesKey], window: TimeWindow) -> list[float] | None:
    """Return mean and peak of the series with the largest mean.

    The mean is that of the buckets' middles: exact if a bucket has one sample, close enough for the width of a line.
    """
    rates = []
    for identity in series:
        drawn = timeline.draw(identity, window.start, window.end, window.buckets)
        if drawn.times.size and not np.isnan(drawn.high).all():
            middle: Floats = (drawn.low + drawn.high) / 2
            rates.append((float(np.nanmean(middle)), float(np.nanmax(drawn.high))))
    return short(np.array(max(rates)) * BITS).tolist() if rates else None
