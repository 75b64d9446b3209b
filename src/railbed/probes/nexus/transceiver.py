"""Transceivers and cables in the ports of a Nexus (`show interface transceiver`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import PORT_NAME, port_name, read_object, require, rows, value_of
from railbed.parsing.text import Fields, number

PORT = re.compile(rf"(?P<name>{PORT_NAME.pattern})(?P<rest> (?:transceiver|sfp) is .*)?")
PRESENT = re.compile(r"(?:transceiver|sfp) is (?P<absent>not )?present\b.*")
PROPERTY = re.compile(r"(type|name|part number|serial number) is (\S.*)")
LANE = re.compile(r"Lane Number\s*+:\s*+(?P<number>\d+)\b.*")
MEASURED = re.compile(r"(?P<name>Temperature|Voltage|Current|[TR]x Power)\s+(?P<value>N/A|-?\d+(?:\.\d+)?)(?: .*)?")
UNITS = {
    "Temperature": "temperature_celsius",
    "Voltage": "voltage_volts",
    "Current": "bias_milliamperes",
    "Tx Power": "tx_power_dbm",
    "Rx Power": "rx_power_dbm",
}
KNOWN = re.compile(
    r"[A-Za-z][\w /.()-]* (?:is|code|none)\b.*|SFP Detail.*|Current +Alarms.*|Measurement .*|Transmit Fault Count.*|"
    r"near-end lanes .*|Link length.*|number of lanes .*|Alarms .*|High .*"
)
"""Lines that are not facts here; what follows `is` is anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpticalLane:
    """What a transceiver measures on a lane; None for what it does not measure, and for light that is not there."""

    temperature_celsius: float | None = None
    voltage_volts: float | None = None
    bias_milliamperes: float | None = None
    tx_power_dbm: float | None = None
    rx_power_dbm: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transceiver:
    """What is plugged into a port."""

    type: str | None = None
    vendor: str | None = None
    part: str | None = None
    serial: str | None = None
    lanes: dict[str, OpticalLane] = field(default_factory=dict)
    """By number, as text; only `show interface transceiver details` has them. An SFP has lane 1, a cable none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transceivers(TextFacts):
    """Transceivers by port; None for a port without one."""

    ports: dict[str, Transceiver | None]


def parse(text: str) -> Transceivers:
    """Read both forms."""
    fields, lines = read_object(text), Lines(text)
    ports = dict(_of_json(fields) if fields else _of_text(lines))
    lines.require(ports, "no port with or without a transceiver")
    return Transceivers(ports=ports, not_understood=lines.not_understood)


def _of_json(fields: Fields) -> Iterator[tuple[str, Transceiver | None]]:
    for row in rows(fields, "interface"):
        present = (value_of(row, "sfp") or "").startswith("present")
        transceiver = Transceiver(
            type=value_of(row, "type"),
            vendor=value_of(row, "name"),
            part=value_of(row, "partnum"),
            serial=value_of(row, "serialnum"),
        )
        yield port_name(require(row, "interface")), transceiver if present else None


@dataclass(slots=True)
class _Reading:
    """The port whose lines are being read."""

    name: str = ""
    present: bool | None = None
    values: dict[str, str] = field(default_factory=dict)
    lane: str = "1"
    lanes: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def take(self, words: str) -> bool:
        """Read a line below the port's name; return whether it was understood."""
        if match := PRESENT.fullmatch(words):
            self.present = match["absent"] is None
        elif match := PROPERTY.fullmatch(words):
            self.values.setdefault(match[1], match[2].strip())
        elif match := LANE.fullmatch(words):
            self.lane = match["number"]
        elif match := MEASURED.fullmatch(words):
            value = None if match["value"] == "N/A" else number(match["value"])
            self.lanes.setdefault(self.lane, {}).setdefault(UNITS[match["name"]], value)
        else:
            return KNOWN.fullmatch(words) is not None
        return True

    def build(self) -> Iterator[tuple[str, Transceiver | None]]:
        """Yield the port if its lines are about a transceiver."""
        if self.present is not None:
            yield port_name(self.name), self._transceiver() if self.present else None

    def _transceiver(self) -> Transceiver:
        return Transceiver(
            type=self.values.get("type"),
            vendor=self.values.get("name"),
            part=self.values.get("part number"),
            serial=self.values.get("serial number"),
            lanes={lane: OpticalLane(**values) for lane, values in self.lanes.items()},
        )


def _of_text(lines: Lines) -> Iterator[tuple[str, Transceiver | None]]:
    port = _Reading()
    for line in lines:
        words = line.strip()
        if match := PORT.fullmatch(words):
            yield from port.build()
            port = _Reading(match["name"])
            words = (match["rest"] or "").strip()
        if words and not (port.name and port.take(words)):
            lines.unknown(line)
    yield from port.build()


PROBE = Probe(
    name="nexus_transceiver",
    title="transceivers and cables in the ports of a Nexus",
    command="show interface transceiver | json\nshow interface transceiver",
    parse=parse,
    facts=Transceivers,
    runs_on="switch",
    one_line=True,
)
