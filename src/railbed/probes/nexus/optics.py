"""Optical power in the ports of a Nexus, with the modules' own limits (`show interface transceiver details`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import read_object
from railbed.parsing.nexus.modules import Cage, cages
from railbed.parsing.optics import LaneLight, OpticalModule
from railbed.parsing.text import Fields, number

LANE = re.compile(r"Lane Number\s*:.*", re.IGNORECASE)
POWER = re.compile(
    r"(?P<way>Rx|Tx) Power\s++(?P<value>N/A|-?\d{1,3}\.\d{1,3} dBm)(?:\s++(?P<mark>\+\+|\+|--|-)(?=\s|$))?"
    + r"(?:"
    + r"\s++(N/A|-?\d{1,3}\.\d{1,3} dBm)" * 4
    + r")?",
    re.ASCII,
)
CURRENT = re.compile(r"Current\s++(N/A|\d{1,4}\.\d{1,3} mA)(?:\s.*)?", re.ASCII)
NOT_LIGHT = ("Temperature", "Voltage")
MARKS = {"++": "high alarm", "+": "high warning", "--": "low alarm", "-": "low warning"}
ORDER = ("high_alarm", "low_alarm", "high_warning", "low_warning")
JSON_LIMITS = {
    "alrm_hi": "high_alarm",
    "alrm_lo": "low_alarm",
    "warn_hi": "high_warning",
    "warn_lo": "low_warning",
}
DECIMAL = re.compile(r"-?\d{1,4}(?:\.\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOptics(TextFacts):
    """Modules by port; None for a port without one."""

    ports: dict[str, OpticalModule | None]


@dataclass(slots=True)
class _Draft:
    """The lanes of a module, so far."""

    lanes: list[LaneLight] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    values: dict[str, float | None] = field(default_factory=dict)
    """Of the lane whose lines are being read: `rx`, `tx` and `bias`."""
    flags: list[str] = field(default_factory=list)

    def add(self, name: str, value: float | None) -> None:
        """Add a value; what the lane already has begins another lane, even if its first line was not recognised."""
        if name in self.values:
            self.end_lane()
        self.values[name] = value

    def add_power(self, direction: str, value: float | None, mark: str | None) -> None:
        self.add(direction, value)
        if mark in MARKS:
            self.flags.append(f"{direction} power {MARKS[mark]}")

    def end_lane(self) -> None:
        """Close the lane whose values came last."""
        if self.values:
            rx, tx, bias = (self.values.get(name) for name in ("rx", "tx", "bias"))
            self.lanes.append(LaneLight(rx_dbm=rx, tx_dbm=tx, bias_ma=bias, flags=tuple(sorted(self.flags))))
        self.values, self.flags = {}, []


def parse(text: str) -> SwitchOptics:
    """Read both forms."""
    lines = Lines(text)
    ports = {cage.port: _module(cage, lines) for cage in cages(read_object(text), lines)}
    lines.require(ports, "no port with a transceiver, or without one")
    return SwitchOptics(ports=ports, not_understood=lines.not_understood)


def _module(cage: Cage, lines: Lines) -> OpticalModule | None:
    draft = _Draft()
    for words in cage.measured:
        if not _add_line(draft, words):
            lines.unknown(words)
    for lane in cage.lanes:
        _add_lane(draft, lane)
    draft.end_lane()
    if not cage.is_present:
        return None
    return OpticalModule(
        type=cage.names.get("type"),
        vendor=cage.names.get("name"),
        part=cage.names.get("part number"),
        serial=cage.names.get("serial number"),
        lanes=tuple(draft.lanes),
        limits=draft.limits,
    )


def _add_line(draft: _Draft, words: str) -> bool:
    """Read a line about a lane; return whether it is known."""
    if LANE.fullmatch(words):
        draft.end_lane()
    elif match := CURRENT.fullmatch(words):
        draft.add("bias", _amount(match[1]))
    elif match := POWER.fullmatch(words):
        direction = match["way"].lower()
        draft.add_power(direction, _amount(match["value"]), match["mark"])
        for limit, text in zip(ORDER, match.groups()[3:], strict=True):
            value = _amount(text)
            if value is not None:
                draft.limits[f"{direction}_{limit}"] = value
    else:
        return words.startswith(NOT_LIGHT)
    return True


def _amount(text: str | None) -> float | None:
    """Return the number before a unit."""
    return None if text in (None, "N/A") else number(text.partition(" ")[0])


def _add_lane(draft: _Draft, lane: Fields) -> None:
    bias = _decimal(lane, "current")
    if bias is not None:
        draft.add("bias", bias)
    for direction in ("tx", "rx"):
        flag = lane.get(f"{direction}_pwr_flag")
        mark = flag.strip() if isinstance(flag, str) else None
        limits = {
            f"{direction}_{limit}": value
            for key, limit in JSON_LIMITS.items()
            if (value := _decimal(lane, f"{direction}_pwr_{key}")) is not None
        }
        if limits or f"{direction}_pwr" in lane:
            draft.add_power(direction, _decimal(lane, f"{direction}_pwr"), mark)
            draft.limits |= limits
    draft.end_lane()


def _decimal(fields: Fields, key: str) -> float | None:
    """Return a number that may be a string; anything else, as `N/A`, was not measured."""
    value = fields.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e4:
        return float(value)
    word = value.strip() if isinstance(value, str) else ""
    return number(word) if DECIMAL.fullmatch(word) else None


PROBE = Probe(
    name="nexus_optics",
    title="optical power in the ports of a Nexus",
    command="show interface transceiver details | json\nshow interface transceiver details",
    parse=parse,
    facts=SwitchOptics,
    runs_on="switch",
    one_line=True,
)
