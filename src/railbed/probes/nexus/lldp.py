"""LLDP neighbours of a Nexus: the machine and interface at the other end of each cable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.cabling import Neighbour
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import NO_VALUE, content, port_name, read_object, require, rows, value_of
from railbed.parsing.text import Fields

FIELD = re.compile(r"([A-Z][A-Za-z0-9 ]*+): ?(.*)")
MAC = re.compile(r"(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}", re.IGNORECASE)
ANSWER = ("Total entries displayed:", "Capability codes", "(R)", "(W)", "Device ID")
KEYS = {
    "chassis": ("Chassis id", "chassis_id"),
    "port": ("Port id", "port_id"),
    "local": ("Local Port id", "l_port_id"),
    "description": ("Port Description", "port_desc"),
    "system": ("System Name", "sys_name"),
    "system_description": ("System Description", "sys_desc"),
    "address": ("Management Address", "mgmt_addr"),
    "address6": ("Management Address IPV6", "mgmt_addr_ipv6"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchNeighbours(TextFacts):
    """Neighbours by port; a port without any is absent."""

    ports: dict[str, tuple[Neighbour, ...]]


def parse(text: str) -> SwitchNeighbours:
    """Read both forms of `show lldp neighbors detail`; without neighbours, `| json` prints nothing."""
    fields, lines = read_object(text), Lines(text)
    ports: dict[str, tuple[Neighbour, ...]] = {}
    for port, neighbour in _of_json(fields) if fields else _of_text(lines):
        ports[port] = (*ports.get(port, ()), neighbour)
    return SwitchNeighbours(ports=ports, not_understood=lines.not_understood)


def _of_json(fields: Fields) -> Iterator[tuple[str, Neighbour]]:
    for row in rows(fields, "nbor_detail"):
        values = {name: value for name, (_, key) in KEYS.items() if (value := value_of(row, key))}
        yield port_name(require(row, "l_port_id")), _neighbour(values)


def _of_text(lines: Lines) -> Iterator[tuple[str, Neighbour]]:
    """Split at `Chassis id:`, the first line of each neighbour; descriptions may have several lines."""
    names = {label: name for name, (label, _) in KEYS.items()}
    values: dict[str, str] = {}
    is_answer = False
    for line in content(lines):
        match = FIELD.fullmatch(line)
        if line.startswith(ANSWER):
            is_answer = True
        elif match and match[1] == "Chassis id":
            if values:
                yield _local_port(values), _neighbour(values)
            values = {"chassis": match[2].strip()}
        elif match and match[1] in names and values and match[2].strip().lower() not in NO_VALUE:
            values.setdefault(names[match[1]], match[2].strip())
        elif not values:
            lines.unknown(line)
    if values:
        yield _local_port(values), _neighbour(values)
    elif not is_answer:
        lines.require_known("expected LLDP neighbours")


def _local_port(values: dict[str, str]) -> str:
    if "local" not in values:
        raise ParseError("a neighbour without its local port", line=str(values)[:120])
    return port_name(values["local"])


def _neighbour(values: dict[str, str]) -> Neighbour:
    if "port" not in values:
        raise ParseError("a neighbour without a port", line=str(values)[:120])
    addresses = (values.get("address"), values.get("address6"))
    return Neighbour(
        system=values.get("system"),
        system_description=values.get("system_description"),
        chassis=mac_address(values["chassis"]) if "chassis" in values else None,
        port=mac_address(values["port"]),
        port_type="mac" if MAC.fullmatch(values["port"]) else "ifname",
        port_description=values.get("description"),
        addresses=tuple(address for address in addresses if address and not MAC.fullmatch(address)),
    )


def mac_address(text: str) -> str:
    """Return a MAC address as Linux writes it, and any other text unchanged."""
    if not MAC.fullmatch(text):
        return text
    digits = text.replace(".", "").lower()
    return ":".join(digits[index : index + 2] for index in range(0, 12, 2))


PROBE = Probe(
    name="nexus_lldp",
    title="LLDP neighbours of a Nexus: machine and interface of each cable",
    command="show lldp neighbors detail | json\nshow lldp neighbors detail",
    parse=parse,
    facts=SwitchNeighbours,
    runs_on="switch",
    one_line=True,
)
