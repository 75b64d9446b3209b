"""Transceivers and cables in the ports on rails: power of each lane, limits and flags (`ethtool -m IF`).

The text is read: `ethtool --json` of versions from 6.14 on wrote two keys twice, and most readers lose the first. JSON
that somebody saved is accepted, with both values.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.optics import OpticalModule, dbm_of, lanes_of, power_in_dbm
from railbed.parsing.ports import NOT_SUPPORTED, key_and_value

CHANNEL = re.compile(r"channel (\d{1,2})\)", re.ASCII)
AMPERE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) mA", re.ASCII)
VOLTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) V\b.*", re.ASCII)
FLAG = re.compile(r"laser (rx power|output power|tx power|bias current|tx bias current) (high|low) (alarm|warning)")
LIMIT = re.compile(r"laser (rx|output|tx) power (high|low) (alarm|warning) threshold")
RX = ("receiver signal average optical power", "rcvr signal avg optical power", "receiver signal oma")
TX = ("laser output power", "transmit avg optical power")
BIAS = ("laser bias current", "laser tx bias current")
LOSS = "rx loss of signal"
IMPOSSIBLE_VOLTS = 6.0
"""PluggedModules take 3.3 V: a higher voltage is a memory that answers with ones."""
NAMES = {"vendor name": "vendor", "vendor pn": "part", "vendor sn": "serial"}
WORDS = re.compile(r"[^a-z0-9()]+")
MAX_LANES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PluggedModules(TextFacts):
    """PluggedModules by interface; an interface without one, or whose driver does not read it, is absent."""

    interfaces: dict[str, OpticalModule]


@dataclass(slots=True)
class _Draft:
    """The values of a module so far."""

    names: dict[str, str] = field(default_factory=dict)
    rx: dict[int, float | None] = field(default_factory=dict)
    tx: dict[int, float | None] = field(default_factory=dict)
    bias: dict[int, float | None] = field(default_factory=dict)
    flags: dict[int, set[str]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    volts: float | None = None
    is_module: bool = False

    def add_flag(self, lane: int, flag: str) -> None:
        self.flags.setdefault(lane, set()).add(flag)

    def module(self) -> OpticalModule:
        silent = self.volts is not None and self.volts >= IMPOSSIBLE_VOLTS
        # A flag without a number is that of every lane, or of the only one.
        common = self.flags.pop(0, set()) if {*self.rx, *self.tx} - {0} else set()
        for lane in {*self.rx, *self.tx} if common else ():
            self.flags.setdefault(lane, set()).update(common)
        return OpticalModule(
            type=self.names.get("type"),
            vendor=self.names.get("vendor"),
            part=self.names.get("part"),
            serial=self.names.get("serial"),
            lanes=() if silent else lanes_of(self.rx, self.tx, self.bias, self.flags),
            limits={} if silent else self.limits,
            is_silent=silent,
        )


def parse(text: str) -> PluggedModules:
    """Read the text or JSON of one or many modules; most `name : value` lines are properties that do not matter."""
    lines = Lines(text)
    if lines.json:
        return PluggedModules(interfaces=_of_json(lines.json))
    parts = list(lines.sections())
    interfaces = {}
    for name, part in parts:
        draft = _Draft()
        for line in part:
            if NOT_SUPPORTED.match(line.strip()):
                continue
            with part.reading(line):
                key, value = key_and_value(line)
                _add(draft, key.lower(), value)
        if draft.is_module:
            interfaces[name] = draft.module()
    is_ours = any(name for name, _ in parts)
    lines.require(interfaces or is_ours or not text.strip(), "no property of a module")
    return PluggedModules(interfaces=interfaces, not_understood=lines.not_understood)


def _add(draft: _Draft, key: str, value: str) -> None:
    """Add one line; `Laser rx power low alarm (Channel 2)` has the number of its lane."""
    before, _, after = key.partition("(")
    channel = CHANNEL.fullmatch(after)
    name, lane = (before.rstrip(), int(channel[1])) if channel else (key, 0)
    if name in NAMES or name == "identifier":
        draft.is_module = True
        draft.names[NAMES.get(name, "type")] = _in_brackets(value) if name == "identifier" else value
    elif limit := LIMIT.fullmatch(name):
        power = power_in_dbm(value)
        if power is not None:
            draft.limits[f"{'rx' if limit[1] == 'rx' else 'tx'}_{limit[2]}_{limit[3]}"] = power
    elif flag := FLAG.fullmatch(name):
        draft.is_module = True
        for place, state in enumerate(_words(value), start=1):
            if state.lower() == "on":
                draft.add_flag(lane or (place if "," in value else 0), _flag(flag))
    elif name == LOSS:
        for place, state in enumerate(_words(value), start=1):
            if state.lower() == "yes":
                draft.add_flag(lane or (place if "," in value else 0), "rx loss of signal")
    else:
        _add_measurement(draft, name, lane, value)


def _add_measurement(draft: _Draft, name: str, lane: int, value: str) -> None:
    if name in RX or name in TX:
        power = power_in_dbm(value)
        if power is not None:
            draft.is_module = True
            (draft.rx if name in RX else draft.tx)[lane] = power
    elif name in BIAS and (current := AMPERE.fullmatch(value)):
        draft.is_module = True
        draft.bias[lane] = float(current[1])
    elif name == "module voltage" and (volts := VOLTAGE.fullmatch(value)):
        draft.is_module = True
        draft.volts = float(volts[1])


def _flag(match: re.Match[str]) -> str:
    what = {"output power": "tx power", "tx bias current": "bias current"}.get(match[1], match[1])
    return f"{what} {match[2]} {match[3]}"


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.strip("[] ").split(",")][:MAX_LANES]


def _in_brackets(value: str) -> str:
    """Return `QSFP28` of `0x11 (QSFP28)`."""
    return value.partition("(")[2].rstrip(")") or value


def _of_json(text: str) -> dict[str, OpticalModule]:
    try:
        value = json.loads(text, object_pairs_hook=_keep_both)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON ({error.__class__.__name__})", line=text.strip()[:80]) from error
    modules = value if isinstance(value, list) else [value]
    if not modules or not all(isinstance(module, dict) for module in modules):
        raise ParseError("expected the properties of a module", line=text.strip()[:80])
    drafts = [_draft_of_json(module) for module in modules]
    if not any(draft.is_module for draft in drafts):
        raise ParseError("no property of a module", line=text.strip()[:80])
    return {
        str(module.get("ifname", "")): draft.module()
        for module, draft in zip(modules, drafts, strict=True)
        if draft.is_module
    }


def _keep_both(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """Return an object in which the first value of a key stays: the second, its limits, gets a name of its own."""
    values: dict[str, object] = {}
    for key, value in pairs:
        values[f"{key} limits" if key in values else key] = value
    return values


def _draft_of_json(module: Mapping[str, object]) -> _Draft:
    draft = _Draft()
    for key, value in module.items():
        name = WORDS.sub(" ", key.lower()).strip().removesuffix(" measurement")
        if isinstance(value, dict):
            _add_limits(draft, name.removesuffix(" limits"), value)
        elif name in NAMES or name == "identifier description":
            draft.is_module = True
            draft.names[NAMES.get(name, "type")] = str(value)
        else:
            _add_values(draft, name, value if isinstance(value, list) else [value])
    return draft


def _add_limits(draft: _Draft, name: str, limits: Mapping[str, object]) -> None:
    direction = {"laser rx power": "rx", "laser output power": "tx", "laser tx power": "tx"}.get(name)
    for key, value in limits.items():
        if direction and key.endswith("_threshold") and isinstance(value, int | float) and abs(value) < 1e6:
            draft.limits[f"{direction}_{key.removesuffix('_threshold')}"] = dbm_of(value)


def _add_values(draft: _Draft, name: str, values: list[object]) -> None:
    """Add one value, or one for each lane."""
    flag = FLAG.fullmatch(name)
    for place, value in enumerate(values[:MAX_LANES], start=1):
        lane = place if len(values) > 1 else 0
        if isinstance(value, bool) or value in ("Yes", "On"):
            if flag and value:
                draft.add_flag(lane, _flag(flag))
            elif name == LOSS and value:
                draft.add_flag(lane, LOSS)
        elif isinstance(value, int | float) and abs(value) < 1e6:
            _add_number(draft, name, lane, float(value))


def _add_number(draft: _Draft, name: str, lane: int, value: float) -> None:
    if name in RX:
        draft.rx[lane] = dbm_of(value)
    elif name in TX:
        draft.tx[lane] = dbm_of(value)
    elif name in BIAS:
        draft.bias[lane] = value
    elif name == "module voltage":
        draft.volts = value


def command(cluster: Cluster, device: str) -> str:
    """Return the command for the ports of a node: reading a module takes a while, and only those on rails matter."""
    names = " ".join(shlex.quote(port.netdev) for port in cluster.nodes[device].ports)
    return (
        f'for name in {names}; do [ -e "/sys/class/net/$name/device" ] || continue; '
        'echo "==> $name <=="; ethtool -m "$name" 2>&1; done; true'
        if names
        else ""
    )


PROBE = Probe(
    name="ethtool_module",
    title="transceivers and cables: optical power, limits and flags",
    command=command,
    parse=parse,
    facts=PluggedModules,
    tool="ethtool",
    package="ethtool",
    needs_root=True,
    timeout=20.0,
)
