"""The BMCs of nodes as subjects of rules, and what several rules say about their logs and sensors."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from railbed.model.cluster import Bmc
from railbed.model.reading import DeviceFacts
from railbed.parsing.bmc.facts import BmcEvent, BmcSensor
from railbed.probes.bmc import log
from railbed.rules.site import DeviceView, NodeView, Site

RECENT_DAYS = 30
DAY = 86400.0
SHOWN = 3


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


def describe_events(events: Sequence[BmcEvent]) -> str:
    """Return the newest events, newest first, and how many more there are."""
    newest = [describe_event(event) for event in reversed(events[-SHOWN:])]
    more = len(events) - len(newest)
    return "; ".join(newest) + (f"; and {more} more" if more else "")


def describe_event(event: BmcEvent) -> str:
    """Return an event with its time."""
    when = (
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(event.time)) if event.time is not None else "at an unknown time"
    )
    return f"{when}: {event.source + ': ' if event.source else ''}{event.text}"


def describe_sensors(sensors: Iterable[BmcSensor]) -> str:
    """Return sensors with what they report, and how many more there are."""
    listed = list(sensors)
    shown = ", ".join(map(_describe_sensor, listed[:SHOWN]))
    return f"{shown}, and {len(listed) - SHOWN} more" if len(listed) > SHOWN else shown


def _describe_sensor(sensor: BmcSensor) -> str:
    value = f"{sensor.value:g} {sensor.unit}".strip() if sensor.value is not None else sensor.text
    return f"{sensor.name} {value} ({sensor.state})" if value else f"{sensor.name} ({sensor.state})"
