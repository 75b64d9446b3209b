"""Transceivers and cables in the ports of a Nexus (`show interface transceiver`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import port_name, read_object, require, rows, value_of
from railbed.parsing.text import Fields

PRESENT = re.compile(r"transceiver is (not )?present")
PROPERTY = re.compile(r"(type|name|part number|serial number) is (\S.*)")
PORT = re.compile(r"\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transceiver:
    """What is plugged into a port."""

    type: str | None = None
    vendor: str | None = None
    part: str | None = None
    serial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transceivers:
    """Transceivers by port; None for a port without one."""

    ports: dict[str, Transceiver | None]


def parse(text: str) -> Transceivers:
    """Read both forms."""
    fields = read_object(text)
    ports = dict(_of_json(fields) if fields else _of_text(text))
    if not ports:
        raise ParseError("no port", line=text.strip()[:80])
    return Transceivers(ports=ports)


def _of_json(fields: Fields) -> Iterator[tuple[str, Transceiver | None]]:
    for row in rows(fields, "interface"):
        present = (value_of(row, "sfp") or "").startswith("present")
        transceiver = Transceiver(
            type=value_of(row, "type"),
            vendor=value_of(row, "name"),
            part=value_of(row, "partnum"),
            serial=value_of(row, "serialnum"),
        )
        yield port_name(require(row, "interface")), transceiver if present else None


def _of_text(text: str) -> Iterator[tuple[str, Transceiver | None]]:
    name, values, present = "", dict[str, str](), False
    for line in text.splitlines():
        words = line.strip()
        if not words:
            continue
        if not line.startswith(" "):
            if name:
                yield port_name(name), _transceiver(values) if present else None
            if not PORT.fullmatch(words):
                raise ParseError("expected a port", line=line)
            name, values, present = words, {}, False
        elif match := PRESENT.fullmatch(words):
            present = match[1] is None
        elif known := PROPERTY.fullmatch(words):
            values[known[1]] = known[2].strip()
    if name:
        yield port_name(name), _transceiver(values) if present else None


def _transceiver(values: dict[str, str]) -> Transceiver:
    return Transceiver(
        type=values.get("type"),
        vendor=values.get("name"),
        part=values.get("part number"),
        serial=values.get("serial number"),
    )


PROBE = Probe(
    name="nexus_transceiver",
    title="transceivers and cables in the ports of a Nexus",
    command="show interface transceiver | json\nshow interface transceiver",
    parse=parse,
    facts=Transceivers,
    runs_on="switch",
    one_line=True,
)
