"""The BMCs of nodes as subjects of rules, and what the BMC of a node that does not answer reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railbed.model.cluster import Bmc
from railbed.model.reading import DeviceFacts
from railbed.parsing.bmc.facts import BmcEvent
from railbed.parsing.bmc.wording import describe_state
from railbed.probes.bmc import log, power
from railbed.rules.site import DeviceView, NodeView, Site

RECENT_DAYS = 30
DAY = 86400.0


@dataclass(frozen=True, slots=True)
class BmcView(DeviceView):
    """The BMC of a node, whether or not it answered."""

    node: str
    bmc: Bmc

    @property
    def answering_node(self) -> NodeView | None:
        """The node, if it answers."""
        view = self.site.nodes_by_name.get(self.node)
        return view if view is not None and view.facts.failure is None and view.facts.readings else None

    def recent_events(self) -> list[BmcEvent]:
        """Return the events of the last days, and those without a time; ends the judgement if the log is unknown."""
        since = self.output(log.PROBE).received - RECENT_DAYS * DAY
        return [event for event in self.read(log.PROBE).events if event.time is None or event.time >= since]


def bmcs_of(site: Site) -> Iterator[BmcView]:
    """Yield the BMCs of the cluster file, in the order of its nodes."""
    for name, (node, bmc) in site.cluster.bmcs().items():
        yield BmcView(site, name, site.devices.get(name, DeviceFacts(device=name)), node, bmc)


def describe_bmc(site: Site, node: str) -> str:
    """Return what the BMC of a node that does not answer reports, as a clause; empty if it has none that was read."""
    view = next((view for view in bmcs_of(site) if view.node == node), None)
    if view is None or not (view.facts.failure or view.facts.readings):
        return ""
    if view.facts.failure is not None:
        return "its BMC does not answer either"
    state, newest = view.try_read(power.PROBE), view.try_read(log.PROBE)
    return describe_state(state, newest)
