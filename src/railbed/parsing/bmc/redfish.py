"""JSON of Redfish: systems, the sensors of a chassis in the older and the newer form, and log entries.

BMCs leave out much and write null for more: a field of another type than the standard's counts as absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from railbed.errors import ParseError
from railbed.parsing.bmc.facts import (
    BmcEvent,
    BmcLog,
    BmcPower,
    BmcSensor,
    BmcSensors,
    SensorKind,
    SensorState,
    Severity,
    by_time,
    moment,
    severity_of,
    short,
)
from railbed.parsing.text import json_value

Object = Mapping[str, object]
LARGEST = 1e15
PARTS = ("ProcessorSummary", "MemorySummary")
HEALTH: Mapping[str, SensorState] = {"OK": "ok", "Warning": "warning", "Critical": "critical"}
SEVERITIES: Mapping[str, Severity] = {"OK": "ok", "Warning": "warning", "Critical": "critical"}
ABSENT = ("Absent", "Disabled", "UnavailableOffline")
READINGS = ("Reading", "ReadingCelsius", "ReadingVolts", "PowerConsumedWatts", "LastPowerOutputWatts")
UNITS = {"ReadingCelsius": "degrees C", "ReadingVolts": "Volts"}
LISTS: Mapping[str, SensorKind] = {
    "Temperatures": "temperature",
    "Fans": "fan",
    "Voltages": "voltage",
    "PowerSupplies": "power supply",
}
KINDS: Mapping[str, SensorKind] = {"Temperature": "temperature", "Rotational": "fan", "Voltage": "voltage"}


def is_redfish(text: str) -> bool:
    """Whether an output is JSON rather than the text of ipmitool."""
    return text.lstrip()[:1] == "{"


def resources(text: str) -> Iterator[Object]:
    """Yield the resources of our command's output, or the only one that a person saved."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise ParseError("expected a JSON object", line=text.strip()[:80])
    for resource in [value] if "@odata.id" in value else value.values():
        if not isinstance(resource, dict):
            raise ParseError("a resource is not a JSON object", line=str(resource)[:80])
        yield resource


def parse_system(text: str) -> BmcPower:
    """Read a ComputerSystem."""
    systems = [system for system in resources(text) if "PowerState" in system]
    if not systems:
        raise ParseError("no system with a PowerState", line=text.strip()[:80])
    if len(systems) > 1:
        names = ", ".join(_text(system, "Id") or "?" for system in systems[:8])
        raise ParseError(f"{len(systems)} systems; name one of them in `bmc: {{system: …}}`: {short(names)}")
    system = systems[0]
    state = _text(system, "PowerState")
    health = [("system", _health(system)), *((part, _health(_object(system, part))) for part in PARTS)]
    return BmcPower(
        power="on" if state in ("On", "PoweringOff") else "off" if state in ("Off", "PoweringOn") else None,
        faults=tuple(f"{part} {state}" for part, state in health if state in ("warning", "critical")),
        model=_text(system, "Model"),
        serial=_text(system, "SerialNumber"),
    )


def parse_sensors(text: str) -> BmcSensors:
    """Read Thermal and Power, or resources of Sensor and PowerSupply."""
    return BmcSensors(sensors=tuple(sensor for resource in resources(text) for sensor in _sensors(resource)))


def _sensors(resource: Object) -> Iterator[BmcSensor]:
    kind = _text(resource, "@odata.type")
    if kind.startswith("#Sensor."):
        yield _sensor(resource, KINDS.get(_text(resource, "ReadingType"), "other"))
    elif kind.startswith("#PowerSupply."):
        yield _sensor(resource, "power supply")
    for name, of in LISTS.items():
        listed = resource.get(name)
        for item in listed if isinstance(listed, list) else ():
            if isinstance(item, dict):
                yield _sensor(item, of)


def _sensor(item: Object, kind: SensorKind) -> BmcSensor:
    key = next((key for key in READINGS if _number(item, key) is not None), "")
    return BmcSensor(
        name=_text(item, "Name") or _text(item, "FanName") or _text(item, "MemberId"),
        kind=kind,
        value=_number(item, key) if key else None,
        unit=UNITS.get(key) or _text(item, "ReadingUnits") or ("Watts" if key.endswith("Watts") else ""),
        state=_health(item),
        text=" ".join(filter(None, (_text(_object(item, "Status"), "State"), _text(item, "LineInputStatus")))),
    )


def parse_log(text: str) -> BmcLog:
    """Read log entries, or a collection that has them in place."""
    read = list(resources(text))
    if not read:
        raise ParseError("the BMC serves no event log", line=text.strip()[:80])
    entries = [entry for resource in read for entry in _entries(resource)]
    unique = {_text(entry, "@odata.id") or str(index): entry for index, entry in enumerate(entries)}
    return BmcLog(events=by_time([_event(entry) for entry in unique.values()]))


def _entries(resource: Object) -> Iterator[Object]:
    members = resource.get("Members")
    if isinstance(members, list):
        yield from (member for member in members if isinstance(member, dict) and "Message" in member)
    elif "Message" in resource or "Severity" in resource:
        yield resource


def _event(entry: Object) -> BmcEvent:
    source, words = _text(entry, "SensorType"), _text(entry, "Message") or _text(entry, "Name")
    resolved = entry.get("Resolved") is True or _text(entry, "EntryCode").startswith("Deassert")
    severity = SEVERITIES.get(_text(entry, "Severity")) or severity_of(words)
    return BmcEvent(
        number=_text(entry, "Id"),
        time=_time(_text(entry, "EventTimestamp") or _text(entry, "Created")),
        source=source,
        text=words,
        severity="ok" if resolved else severity,
        is_asserted=not resolved,
    )


def _time(written: str) -> float | None:
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        return None
    return moment(at if at.tzinfo else at.replace(tzinfo=UTC))


def _health(item: Object) -> SensorState | None:
    status = _object(item, "Status")
    if _text(status, "State") in ABSENT:
        return "absent"
    return HEALTH.get(_text(status, "Health") or _text(status, "HealthRollup"))


def _object(item: Object, key: str) -> Object:
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def _text(item: Object, key: str) -> str:
    value = item.get(key)
    return short(value) if isinstance(value, str) else ""


def _number(item: Object, key: str) -> float | None:
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
        return None
    return float(value) if math.isfinite(value) else None
