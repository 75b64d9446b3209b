"""RDMA devices and ports as `ibstat` shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import IF_THERE_IS_RDMA
from railbed.parsing.text import integer, number

DEVICE = re.compile(r"(?:CA|Switch|Router|iWARP RNIC|\?\?\?):? '([^']+)'")
PORT = re.compile(r"Port (\d{1,3}):", re.ASCII)
VALUE = re.compile(r"((?:\?\?\? )?[A-Za-z][A-Za-z ]*):(.*)", re.ASCII)
WARNING, PANIC = "ibwarn: ", "ibpanic: "


@dataclass(frozen=True, slots=True, kw_only=True)
class IbstatPort:
    """One port."""

    state: str | None = None
    """`Active`, `Down`, `Initializing`, `Armed`."""
    physical_state: str | None = None
    rate_gbps: float | None = None
    link_layer: str | None = None
    base_lid: int | None = None
    sm_lid: int | None = None
    port_guid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IbstatDevice:
    """One device."""

    name: str
    ports: dict[str, IbstatPort]
    """By number, as text."""
    type: str | None = None
    """Chip, for example `MT4103`."""
    firmware: str | None = None
    node_guid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ibstat(TextFacts):
    """All devices by name."""

    devices: dict[str, IbstatDevice]


@dataclass(slots=True)
class _DeviceLines:
    values: dict[str, str] = field(default_factory=dict)
    ports: dict[str, dict[str, str]] = field(default_factory=dict)


def parse(text: str) -> Ibstat:
    """Read `ibstat` of all devices or of one port; no output means no devices."""
    devices: dict[str, _DeviceLines] = {}
    device: _DeviceLines | None = None
    values: dict[str, str] = {}
    lines = Lines(text)
    for line in lines:
        word = line.strip()
        if word.startswith(WARNING):
            continue
        if word.startswith(PANIC):
            raise ParseError("ibstat stopped", line=line)
        if match := DEVICE.fullmatch(word):
            device = devices.setdefault(match[1], _DeviceLines())
            values = device.values
        elif device and (match := PORT.fullmatch(word)):
            values = device.ports.setdefault(match[1], {})
        elif device and (match := VALUE.fullmatch(word)):
            values[match[1]] = match[2].strip()
        else:
            lines.unknown(line)
    lines.require_known("expected `CA 'NAME'`")
    facts = {name: _device(name, block) for name, block in devices.items()}
    return Ibstat(devices=facts, not_understood=lines.not_understood)


def _device(name: str, block: _DeviceLines) -> IbstatDevice:
    values = block.values
    return IbstatDevice(
        name=name,
        ports={port: _port(below) for port, below in block.ports.items()},
        type=next((value for key, value in values.items() if key.endswith(" type") and value), None),
        firmware=values.get("Firmware version") or None,
        node_guid=values.get("Node GUID") or None,
    )


def _port(values: dict[str, str]) -> IbstatPort:
    rate = values.get("Rate", "").partition(" (")[0]
    return IbstatPort(
        state=values.get("State") or None,
        physical_state=values.get("Physical state") or None,
        rate_gbps=number(rate) if rate else None,
        link_layer=values.get("Link layer") or None,
        base_lid=_number(values.get("Base lid")),
        sm_lid=_number(values.get("SM lid")),
        port_guid=values.get("Port GUID") or None,
    )


def _number(value: str | None) -> int | None:
    return integer(value) if value else None


PROBE = Probe(
    name="ibstat",
    title="RDMA devices and ports (ibstat)",
    command=IF_THERE_IS_RDMA + "ibstat",
    parse=parse,
    facts=Ibstat,
    tool="ibstat",
    package="infiniband-diags",
)
