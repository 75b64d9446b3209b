"""RDMA devices: kind of node, firmware, GUIDs (`rdma -j dev`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import IF_THERE_IS_RDMA
from railbed.parsing.text import Fields, json_list, records

LINE = re.compile(r"\d+: ([^\s:]+):(.*)", re.ASCII)
KEYS = {"node_type", "protocol", "fw", "node_guid", "sys_image_guid", "type", "parent", "adaptive-moderation"}
WRAPPED = re.compile(rf"(?:{'|'.join(sorted(KEYS))}) ")
"""A line wrapped before a key, as in mails and manuals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaDev:
    """One RDMA device."""

    name: str
    node_type: str | None = None
    """`ca`, or `rnic` for iWARP."""
    protocol: str | None = None
    """`roce`, `ib`, `iw`; newer tools only."""
    fw: str | None = None
    node_guid: str | None = None
    sys_image_guid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaDevs(TextFacts):
    """All RDMA devices of a machine, by name."""

    devices: dict[str, RdmaDev]


def parse(text: str) -> RdmaDevs:
    """Read `rdma dev` as JSON or text; no output means no devices."""
    lines = Lines(text)
    if lines.json:
        listed = [_from_json(fields) for fields in records(json_list(lines.json))]
        return RdmaDevs(devices={device.name: device for device in listed})
    shown: list[str] = []
    for line in lines:
        if shown and WRAPPED.match(line.strip()):
            shown[-1] += f" {line.strip()}"
        elif LINE.fullmatch(line.strip()):
            shown.append(line)
        elif not _is_detail(line):
            lines.unknown(line)
    devices: dict[str, RdmaDev] = {}
    for line in shown:
        with lines.reading(line):
            device = _from_line(line)
            devices[device.name] = device
    lines.require_known("expected `NUMBER: DEVICE: …`")
    return RdmaDevs(devices=devices, not_understood=lines.not_understood)


def _from_json(fields: Fields) -> RdmaDev:
    return RdmaDev(
        name=fields.text("ifname"),
        node_type=fields.optional_text("node_type"),
        protocol=fields.optional_text("protocol"),
        fw=fields.optional_text("fw"),
        node_guid=fields.optional_text("node_guid"),
        sys_image_guid=fields.optional_text("sys_image_guid"),
    )


def _from_line(line: str) -> RdmaDev:
    match = LINE.fullmatch(line.strip())
    if not match:
        raise ParseError("expected `NUMBER: DEVICE: …`", line=line)
    values: dict[str, str] = {}
    key = ""
    for word in match.group(2).split():
        if word in KEYS:
            key = word
        elif key and key not in values:
            values[key] = word
        else:
            raise ParseError("expected pairs of name and value", line=line)
    return RdmaDev(
        name=match.group(1),
        node_type=values.get("node_type"),
        protocol=values.get("protocol"),
        fw=values.get("fw"),
        node_guid=values.get("node_guid"),
        sys_image_guid=values.get("sys_image_guid"),
    )


def _is_detail(line: str) -> bool:
    """`rdma -d` adds a second line with the capabilities."""
    return line.lstrip().startswith("caps: <")


PROBE = Probe(
    name="rdma_dev",
    title="RDMA devices: kind, firmware, GUIDs",
    command=IF_THERE_IS_RDMA + "rdma -j dev show",
    parse=parse,
    facts=RdmaDevs,
    tool="rdma",
    package="iproute2",
    one_line=True,
)
