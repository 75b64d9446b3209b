"""MAC addresses that a Nexus learned on its ports (`show mac address-table`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import content, port_name, read_object, require, rows, value_of
from railbed.parsing.text import Fields, integer

ROW = re.compile(
    r"[*G+~CRO() ]*+(?P<vlan>\d+|-)\s+(?P<address>(?:[0-9a-f]{4}\.){2}[0-9a-f]{4})\s+(?P<type>\w+)\s+(?P<rest>\S.*)"
)
FLAGS = re.compile(r"\S+\s+[TF~]\s+[TF~]\s+(?P<port>\S.*)")
HEADING = ("Legend:", "* -", "age -", "(T) -", "VLAN ", "VLAN/BD ", "Use the 'hardware-age'", "--", "Total MAC", "MAC ")


@dataclass(frozen=True, slots=True, kw_only=True)
class MacEntry:
    """One address."""

    address: str
    """As Linux writes it: `0c:42:a1:aa:00:01`."""
    vlan: int | None = None
    port: str
    learned: bool
    """Learned from traffic; others are static, or the switch's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MacTable(TextFacts):
    """The MAC address table of a switch."""

    entries: tuple[MacEntry, ...]


def parse(text: str) -> MacTable:
    """Read both forms; for an empty table, `| json` prints nothing."""
    fields, lines = read_object(text), Lines(text)
    entries = tuple(_of_json(fields) if fields else _of_text(lines))
    lines.require_known("no table of MAC addresses")
    return MacTable(entries=entries, not_understood=lines.not_understood)


def _of_json(fields: Fields) -> Iterator[MacEntry]:
    for row in rows(fields, "mac_address"):
        vlan, static = value_of(row, "disp_vlan"), value_of(row, "disp_is_static") or ""
        yield MacEntry(
            address=_address(require(row, "disp_mac_addr")),
            vlan=integer(vlan) if vlan and vlan.isdecimal() else None,
            port=port_name(require(row, "disp_port")),
            learned=static != "enabled",
        )


def _of_text(lines: Lines) -> Iterator[MacEntry]:
    for line in content(lines):
        match = ROW.fullmatch(line)
        if match:
            yield MacEntry(
                address=_address(match["address"]),
                vlan=None if match["vlan"] == "-" else integer(match["vlan"]),
                port=_port(match["rest"]),
                learned=match["type"] == "dynamic",
            )
        elif not line.startswith(HEADING):
            lines.unknown(line)


def _port(cells: str) -> str:
    """Return the port after age, security and notification; some ports are several words, as `vPC Peer-Link`."""
    match = FLAGS.fullmatch(cells)
    return port_name(match["port"] if match else cells.rsplit(maxsplit=1)[-1])


def _address(text: str) -> str:
    digits = text.replace(".", "").replace(":", "").lower()
    if len(digits) != 12 or not digits.isalnum():
        raise ParseError("not a MAC address", line=text)
    return ":".join(digits[index : index + 2] for index in range(0, 12, 2))


PROBE = Probe(
    name="nexus_mac_table",
    title="MAC addresses that a Nexus learned on its ports",
    command="show mac address-table | json\nshow mac address-table",
    parse=parse,
    facts=MacTable,
    runs_on="switch",
    one_line=True,
)
