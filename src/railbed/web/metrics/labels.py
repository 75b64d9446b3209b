"""The labels of a series: names from the cluster file, so that a port is known by its node and rail everywhere."""

from __future__ import annotations

from collections.abc import Mapping

from railbed.model.cluster import Cluster
from railbed.model.meters import SeriesKey
from railbed.web.metrics.names import METRICS


class Labels:
    """Labels for the series of a cluster. What a series does not have is absent, not empty."""

    def __init__(self, cluster: Cluster) -> None:
        self._switches = frozenset(cluster.switches)
        self._rails = {(node, port.netdev): port.rail for node, port in cluster.ports()}
        self._ends = {
            (name, port.name): (port.node, port.netdev)
            for name, switch in cluster.switches.items()
            for port in switch.ports
        }

    def of(self, series: SeriesKey) -> Mapping[str, str]:
        """Return the labels of a series; a switch port has those of the node that is cabled to it."""
        part = METRICS[series.meter].part
        labels = {"port": series.port, part: series.part}
        if series.device in self._switches:
            node, netdev = self._ends.get((series.device, series.port), ("", ""))
            labels |= {"switch": series.device, "node": node, "rail": self._rails.get((node, netdev), "")}
        else:
            labels |= {"node": series.device, "rail": self._rails.get((series.device, series.port), "")}
        return {name: as_unicode(value) for name, value in labels.items() if name and value}


def as_unicode(text: str) -> str:
    """Replace what UTF-8 cannot represent: the name of an interface may be any bytes."""
    return text.encode("utf-8", "replace").decode()
