"""The text of ipmitool: `chassis status`, `sdr elist`, `sel elist`."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    by_time,
    moment,
    severity_of,
    short,
)
from railbed.parsing.lines import Lines

STATES: dict[str, SensorState | None] = {
    **dict.fromkeys(("ok",), "ok"),
    **dict.fromkeys(("nc", "unc", "lnc"), "warning"),
    **dict.fromkeys(("cr", "ucr", "lcr", "nr", "unr", "lnr"), "critical"),
    **dict.fromkeys(("ns", "na", "us"), None),
}
"""Of the column `status`: within the thresholds, non-critical, critical, non-recoverable, no reading."""
READING = re.compile(r"([+-]?\d{1,30}(?:\.\d{0,30})?) (\S.*)")
ENTITY_OF_SUPPLIES = "10."
TEMPERATURE, FAN, VOLTAGE = "degrees C", "RPM", "Volts"
BAD_SUPPLY = re.compile(
    r"failure detected|ac lost|input lost|out-of-range|predictive failure|config error", re.IGNORECASE
)
DATES = ("%m/%d/%y %H:%M:%S", "%m/%d/%Y %H:%M:%S")
ENTRY = re.compile(r"\s*[0-9a-fA-F]{1,8}\s*\|")
EMPTY_LOG = "SEL has no entries"
FAULTS = ("Power Overload", "Main Power Fault", "Power Control Fault", "Drive Fault", "Cooling/Fan Fault")


def parse_chassis(text: str) -> BmcPower:
    """Read `chassis status`."""
    lines = Lines(text)
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        fields[name.strip()] = value.strip()
        if not colon:
            lines.unknown(line)
    power = fields.get("System Power")
    if power is None:
        raise ParseError("no line `System Power`", line=text.strip()[:80])
    return BmcPower(
        power="on" if power == "on" else "off" if power == "off" else None,
        faults=tuple(name for name in FAULTS if fields.get(name) == "true"),
        last_event=short(fields.get("Last Power Event", "")),
        not_understood=lines.not_understood,
    )


def parse_sensors(text: str) -> BmcSensors:
    """Read `sdr elist`."""
    lines = Lines(text)
    sensors: list[BmcSensor] = []
    for line in lines:
        with lines.reading(line):
            sensors.append(_sensor(line))
    lines.require_known("expected name | number | status | entity | reading")
    return BmcSensors(sensors=tuple(sensors), not_understood=lines.not_understood)


def _sensor(line: str) -> BmcSensor:
    parts = [part.strip() for part in line.split("|", 4)]
    if len(parts) != 5:
        raise ParseError("expected name | number | status | entity | reading", line=line)
    name, _, status, entity, reading = parts
    match = READING.fullmatch(reading)
    unit = short(match[2]) if match else ""
    state = STATES.get(status)
    is_supply = entity.startswith(ENTITY_OF_SUPPLIES)
    if match is None:
        state = _discrete_state(reading, state, is_supply=is_supply)
    return BmcSensor(
        name=short(name),
        kind="power supply" if is_supply else _kind(unit),
        value=float(match[1]) if match else None,
        unit=unit,
        state=state,
        text="" if match else short(reading),
    )


def _kind(unit: str) -> SensorKind:
    kinds: dict[str, SensorKind] = {TEMPERATURE: "temperature", FAN: "fan", VOLTAGE: "voltage"}
    return kinds.get(unit, "other")


def _discrete_state(reading: str, state: SensorState | None, *, is_supply: bool) -> SensorState | None:
    """Return the state of a sensor without a number, whose status is `ok` whatever it reports."""
    if is_supply and BAD_SUPPLY.search(reading):
        return "critical"
    if reading in ("No Reading", "Disabled", "Not Readable") or (is_supply and not reading):
        return "absent"
    return state


def parse_log(text: str) -> BmcLog:
    """Read `sel elist`."""
    lines = Lines(text)
    events = by_time(list(_events(lines)))
    lines.require_known("expected number | date | time | sensor | event")
    return BmcLog(events=events, not_understood=lines.not_understood)


def _events(lines: Lines) -> Iterator[BmcEvent]:
    for line in lines:
        parts = [part.strip() for part in line.split("|")]
        if not ENTRY.match(line) or len(parts) < 4:
            if line.strip() != EMPTY_LOG:
                lines.unknown(line)
            continue
        number, date, clock, source, *rest = parts
        states = [part for part in rest if part not in ("Asserted", "Deasserted", "")]
        words = ", ".join(states) or source
        asserted = "Deasserted" not in rest
        yield BmcEvent(
            number=short(number),
            time=_time(date, clock),
            source=short(source),
            text=short(words),
            severity=severity_of(f"{source} {words}") if asserted else "ok",
            is_asserted=asserted,
        )


def _time(date: str, clock: str) -> float | None:
    """Return the time of an entry; ipmitool is run with UTC. `Pre-Init` was logged before the BMC had a time."""
    written = f"{date} {clock.removesuffix('UTC').strip()}"[:40]
    for form in DATES:
        try:
            return moment(datetime.strptime(written, form).replace(tzinfo=UTC))
        except ValueError:
            continue
    return None
