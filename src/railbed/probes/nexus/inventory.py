"""Parts of a Nexus with their product and serial numbers (`show inventory`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import NO_VALUE, content, read_object, require, rows, value_of

PRODUCT = re.compile(r"PID: ([^,]*),\s*VID: ([^,]*),\s*SN: (\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryPart:
    """One part: chassis, module, power supply, fan, transceiver."""

    name: str
    description: str
    product: str | None = None
    serial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory(TextFacts):
    """The parts of a switch, in its order."""

    parts: tuple[InventoryPart, ...]


def parse(text: str) -> Inventory:
    """Read both forms."""
    lines = Lines(text)
    if fields := read_object(text):
        parts = tuple(
            InventoryPart(
                name=require(row, "name").strip('"'),
                description=(value_of(row, "desc") or "").strip('"'),
                product=value_of(row, "productid"),
                serial=value_of(row, "serialnum"),
            )
            for row in rows(fields, "inv")
        )
    else:
        parts = _of_text(lines)
    lines.require(parts, "no parts, not even a chassis")
    return Inventory(parts=parts, not_understood=lines.not_understood)


def _of_text(lines: Lines) -> tuple[InventoryPart, ...]:
    parts: list[InventoryPart] = []
    name = description = ""
    for line in content(lines):
        product = PRODUCT.fullmatch(line)
        if line.startswith("NAME: "):
            name, _, description = line.removeprefix("NAME: ").partition("DESCR: ")
        elif product and name:
            parts.append(
                InventoryPart(
                    name=name.strip(', "'),
                    description=description.strip().removeprefix('"').removesuffix('"').strip(),
                    product=_parse_value(product[1]),
                    serial=_parse_value(product[3]),
                )
            )
            name = ""
        else:
            lines.unknown(line)
    return tuple(parts)


def _parse_value(text: str) -> str | None:
    return None if text.strip().lower() in NO_VALUE else text.strip()


PROBE = Probe(
    name="nexus_inventory",
    title="parts of a Nexus, with product and serial numbers",
    command="show inventory | json\nshow inventory",
    parse=parse,
    facts=Inventory,
    runs_on="switch",
    one_line=True,
)
