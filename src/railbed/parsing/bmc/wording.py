"""What a BMC reports, in words: its state as a clause, events and sensors."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from railbed.parsing.bmc.facts import BmcEvent, BmcLog, BmcPower, BmcSensor

SHOWN = 3


def describe_state(power_facts: BmcPower | None, log_facts: BmcLog | None) -> str:
    """Return what a BMC reports about a node, as a clause: power, faults, and the newest events that matter."""
    clauses = []
    if power_facts is not None:
        state = f"power {power_facts.power}" if power_facts.power else "no power state"
        clauses.append(f"{state} (last power event: {power_facts.last_event})" if power_facts.last_event else state)
        clauses += [f"fault: {fault}" for fault in power_facts.faults]
    if log_facts is not None:
        serious = [event for event in log_facts.events if event.severity in ("warning", "critical")]
        if serious:
            clauses.append(f"in its event log {describe_events(serious)}")
    return f"its BMC reports {', '.join(clauses)}" if clauses else ""


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
