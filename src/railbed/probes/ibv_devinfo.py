"""RDMA devices as applications see them: MTU in use, state, GIDs, firmware (`ibv_devinfo -v`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.gids import Gid, gid_text, gid_type
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import IF_THERE_IS_RDMA
from railbed.parsing.text import integer

DEVICE = re.compile(r"hca_id:\s*(\S+)")
PORT = re.compile(r"port:\s*(\d{1,3})", re.ASCII)
GID = re.compile(r"GID\[ *(\d{1,5})\]:\s*([0-9a-fA-F:.]+)(?:, *+(.+))?", re.ASCII | re.DOTALL)
VALUE = re.compile(r"([a-z]\w*):(?:\s+(.*))?", re.ASCII)
CAPABILITY = re.compile(r"(?:\t\t\t| {12}).*|\s+(?:[A-Z][A-Z0-9_ ]+|0x[0-9a-f]+|[A-Za-z][\w /-]*:.*|Unknown flags: .*)")
"""The indented lists of capabilities that `-v` adds."""
NO_DEVICES = "No IB devices found"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbsPort:
    """One port."""

    state: str | None = None
    """`PORT_ACTIVE`, `PORT_DOWN`, …"""
    max_mtu: int | None = None
    active_mtu: int | None = None
    """Largest payload of a packet now: 4096 needs an interface with jumbo frames, 1500 gives 1024."""
    sm_lid: int | None = None
    port_lid: int | None = None
    link_layer: str | None = None
    gids: tuple[Gid, ...] = ()
    """Only with `-v`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbsDevice:
    """One device."""

    name: str
    ports: dict[str, VerbsPort]
    """By number, as text."""
    transport: str | None = None
    """`InfiniBand` (RoCE too) or `iWARP`."""
    fw_ver: str | None = None
    node_guid: str | None = None
    vendor_id: str | None = None
    vendor_part_id: int | None = None
    board_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbsDevices(TextFacts):
    """All devices by name; GID lines saved without their device are under empty names."""

    devices: dict[str, VerbsDevice]


@dataclass(slots=True)
class _Subtree:
    """The lines below one device or port."""

    values: dict[str, str] = field(default_factory=dict)
    gids: list[Gid] = field(default_factory=list)
    ports: dict[str, _Subtree] = field(default_factory=dict)


def parse(text: str) -> VerbsDevices:
    """Read `ibv_devinfo` with or without `-v`, or GID lines alone; no output means no devices."""
    devices: dict[str, _Subtree] = {}
    device = port = None
    lines = Lines(text)
    for line in lines:
        word = line.strip()
        if word == NO_DEVICES:
            continue
        if match := DEVICE.fullmatch(word):
            device, port = devices.setdefault(match[1], _Subtree()), None
        elif match := GID.fullmatch(word):
            device = device or devices.setdefault("", _Subtree())
            port = port or device.ports.setdefault("", _Subtree())
            with lines.reading(line):
                port.gids.append(Gid(index=integer(match[1]), gid=gid_text(match[2]), type=gid_type(match[3] or "")))
        elif device and (match := PORT.fullmatch(word)):
            port = device.ports.setdefault(match[1], _Subtree())
        elif device and (match := VALUE.fullmatch(word)):
            (port or device).values.setdefault(match[1], (match[2] or "").strip())
        elif device is None or not CAPABILITY.fullmatch(line):
            lines.unknown(line)
    lines.require_known("expected `hca_id: …`")
    facts = {name: _device(name, block) for name, block in devices.items()}
    return VerbsDevices(devices=facts, not_understood=lines.not_understood)


def _device(name: str, block: _Subtree) -> VerbsDevice:
    values = block.values
    return VerbsDevice(
        name=name,
        ports={number: _port(below) for number, below in block.ports.items()},
        transport=_before_bracket(values.get("transport")),
        fw_ver=values.get("fw_ver") or None,
        node_guid=values.get("node_guid") or None,
        vendor_id=values.get("vendor_id") or None,
        vendor_part_id=integer(values["vendor_part_id"]) if values.get("vendor_part_id") else None,
        board_id=values.get("board_id") or None,
    )


def _port(block: _Subtree) -> VerbsPort:
    values = block.values
    return VerbsPort(
        state=_before_bracket(values.get("state")),
        max_mtu=_mtu(values.get("max_mtu")),
        active_mtu=_mtu(values.get("active_mtu")),
        sm_lid=integer(values["sm_lid"]) if values.get("sm_lid") else None,
        port_lid=integer(values["port_lid"]) if values.get("port_lid") else None,
        link_layer=values.get("link_layer") or None,
        gids=tuple(block.gids),
    )


def _before_bracket(value: str | None) -> str | None:
    """`PORT_ACTIVE (4)` is PORT_ACTIVE."""
    return value.partition(" (")[0] or None if value else None


def _mtu(value: str | None) -> int | None:
    """`4096 (5)` is 4096, `invalid MTU (225)` is unknown."""
    size = _before_bracket(value)
    return integer(size) if size and not size.startswith("invalid") else None


PROBE = Probe(
    name="ibv_devinfo",
    title="RDMA devices as applications see them: MTU, state, GIDs",
    command=IF_THERE_IS_RDMA + "ibv_devinfo -v",
    parse=parse,
    facts=VerbsDevices,
    tool="ibv_devinfo",
    package="ibverbs-utils",
)
