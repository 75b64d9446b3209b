"""Optical power in the ports of a Nexus, with the modules' own limits (`show interface transceiver details`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import port_name, read_object, require, rows, value_of
from railbed.parsing.optics import LaneLight, OpticalModule
from railbed.parsing.text import Fields, number

PORT = re.compile(r"[A-Za-z][A-Za-z-]*\d[\d/.]*", re.ASCII)
PRESENT = re.compile(r"transceiver is (not )?present")
PROPERTY = re.compile(r"(type|name|part number|serial number) is (\S.*)")
LANE = re.compile(r"Lane Number:\s*(\d{1,2})\b.*", re.ASCII | re.IGNORECASE)
POWER = re.compile(
    r"(Rx|Tx) Power\s++(N/A|-?\d{1,3}\.\d{1,3} dBm)(?:\s++(\+\+|\+|--|-)(?=\s))?"
    + r"\s++(N/A|-?\d{1,3}\.\d{1,3} dBm)" * 4,
    re.ASCII,
)
CURRENT = re.compile(r"Current\s+(\d{1,4}\.\d{1,3}) mA.*", re.ASCII)
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
class SwitchOptics:
    """Modules by port; None for a port without one."""

    ports: dict[str, OpticalModule | None]


@dataclass(slots=True)
class _Draft:
    """What the switch shows about a port, so far."""

    is_present: bool = False
    names: dict[str, str] = field(default_factory=dict)
    lanes: list[LaneLight] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    rx: float | None = None
    tx: float | None = None
    bias: float | None = None
    flags: list[str] = field(default_factory=list)
    has_values: bool = False

    def end_lane(self) -> None:
        """Close the lane whose values came last."""
        if self.has_values:
            lane = LaneLight(rx_dbm=self.rx, tx_dbm=self.tx, bias_ma=self.bias, flags=tuple(sorted(self.flags)))
            self.lanes.append(lane)
        self.rx = self.tx = self.bias = None
        self.flags, self.has_values = [], False

    def module(self) -> OpticalModule | None:
        self.end_lane()
        if not self.is_present:
            return None
        return OpticalModule(
            type=self.names.get("type"),
            vendor=self.names.get("name"),
            part=self.names.get("part number"),
            serial=self.names.get("serial number"),
            lanes=tuple(self.lanes),
            limits=self.limits,
        )


def parse(text: str) -> SwitchOptics:
    """Read both forms; unknown lines are further properties of a module."""
    fields = read_object(text)
    ports = dict(_of_json(fields) if fields else _of_text(text))
    if not ports:
        raise ParseError("no port with a transceiver, or without one", line=text.strip()[:80])
    return SwitchOptics(ports=ports)


def _of_text(text: str) -> Iterator[tuple[str, OpticalModule | None]]:
    name, draft, is_port = "", _Draft(), False
    for line in text.split("\n"):
        words = line.strip()
        if not line.startswith(" ") and PORT.fullmatch(words):
            if is_port:
                yield port_name(name), draft.module()
            name, draft, is_port = words, _Draft(), False
        elif name and (match := PRESENT.fullmatch(words)):
            # Other commands list ports in the same form: only this line shows that it is about modules.
            draft.is_present, is_port = match[1] is None, True
        elif is_port:
            _add_line(draft, words)
    if is_port:
        yield port_name(name), draft.module()


def _add_line(draft: _Draft, words: str) -> None:
    if match := PROPERTY.fullmatch(words):
        draft.names[match[1]] = match[2].strip()
    elif LANE.fullmatch(words):
        draft.end_lane()
    elif match := CURRENT.fullmatch(words):
        draft.bias, draft.has_values = number(match[1]), True
    elif match := POWER.fullmatch(words):
        _add_power(draft, match[1].lower(), _decibels(match[2]), match[3])
        for limit, text in zip(ORDER, match.groups()[3:], strict=True):
            value = _decibels(text)
            if value is not None:
                draft.limits[f"{match[1].lower()}_{limit}"] = value


def _add_power(draft: _Draft, direction: str, value: float | None, mark: str | None) -> None:
    draft.has_values = True
    if direction == "rx":
        draft.rx = value
    else:
        draft.tx = value
    if mark in MARKS:
        draft.flags.append(f"{direction} power {MARKS[mark]}")


def _decibels(text: str) -> float | None:
    return None if text == "N/A" else number(text.removesuffix(" dBm"))


def _of_json(fields: Fields) -> Iterator[tuple[str, OpticalModule | None]]:
    for row in rows(fields, "interface"):
        draft = _Draft(is_present=(value_of(row, "sfp") or "").startswith("present"))
        keys = {"type": "type", "name": "name", "part number": "partnum", "serial number": "serialnum"}
        draft.names = {name: value for name, key in keys.items() if (value := value_of(row, key))}
        for lane in rows(row, "lane"):
            _add_lane(draft, lane)
        yield port_name(require(row, "interface")), draft.module()


def _add_lane(draft: _Draft, lane: Fields) -> None:
    draft.bias = _decimal(lane, "current")
    for direction in ("tx", "rx"):
        flag = lane.get(f"{direction}_pwr_flag")
        mark = flag.strip() if isinstance(flag, str) else None
        limits = {
            f"{direction}_{limit}": value
            for key, limit in JSON_LIMITS.items()
            if (value := _decimal(lane, f"{direction}_pwr_{key}")) is not None
        }
        if limits or f"{direction}_pwr" in lane:
            _add_power(draft, direction, _decimal(lane, f"{direction}_pwr"), mark)
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
