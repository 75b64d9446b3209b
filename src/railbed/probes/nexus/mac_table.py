"""MAC addresses that a Nexus learned on its ports (`show mac address-table`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import content, port_name, read_object, require, rows, value_of
from railbed.parsing.text import Fields, integer

ROW = re.compile(
    r"[*G+~CRO() ]*+(?P<vlan>\d+|-)\s+(?P<address>(?:[0-9a-f]{4}\.){2}[0-9a-f]{4})\s+(?P<type>\w+)\s+(?P<rest>\S.*)"
)
HEADING = ("Legend:", "* -", "age -", "(T) -", "VLAN ", "Note:", "--", "Total MAC")


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
class MacTable:
    """The MAC address table of a switch."""

    entries: tuple[MacEntry, ...]


def parse(text: str) -> MacTable:
    """Read both forms; for an empty table, `| json` prints nothing."""
    fields = read_object(text)
    return MacTable(entries=tuple(_of_json(fields) if fields else _of_text(text)))


def _of_json(fields: Fields) -> Iterator[MacEntry]:
    for row in rows(fields, "mac_address"):
        vlan, static = value_of(row, "disp_vlan"), value_of(row, "disp_is_static") or ""
        yield MacEntry(
            address=_address(require(row, "disp_mac_addr")),
            vlan=integer(vlan) if vlan and vlan.isdecimal() else None,
            port=port_name(require(row, "disp_port")),
            learned=static != "enabled",
        )


def _of_text(text: str) -> Iterator[MacEntry]:
    is_table = False
    for line in map(str.strip, content(text)):
        match = ROW.fullmatch(line)
        if match:
            yield MacEntry(
                address=_address(match["address"]),
                vlan=None if match["vlan"] == "-" else integer(match["vlan"]),
                port=port_name(match["rest"].split()[-1]),
                learned=match["type"] == "dynamic",
            )
        elif line.startswith(HEADING):
            is_table = True
        else:
            raise ParseError("expected a MAC address", line=line)
    if text.strip() and not is_table:
        raise ParseError("no table of MAC addresses", line=text.strip()[:80])


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
