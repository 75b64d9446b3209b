"""Answers of a Nexus: JSON of `| json` and of NX-API, and the names of ports.

NX-OS writes a table as an object `TABLE_x` that contains `ROW_x`: an object if there is one row, a list if there are
several, nothing if there is none. Numbers are strings after `| json` and numbers over NX-API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from railbed.errors import ParseError
from railbed.model.cabling import port_key
from railbed.parsing.lines import Lines
from railbed.parsing.text import Fields, integer, json_value

T = TypeVar("T")
SHORT_ETHERNET = re.compile(r"eth(?:ernet)?(?=\d)", re.IGNORECASE)
NO_VALUE = frozenset({"", "-", "--", "n/a", "not advertised", "null", "none"})
SLOT = re.compile(r"slot\s+\d+", re.IGNORECASE)
OBJECT = re.compile(r"^[ \t]*+\{", re.MULTILINE)
PORT_NAME = re.compile(r"[A-Za-z][A-Za-z-]{0,30}+\d[\d/.]{0,20}+")
"""`Ethernet1/1`, `port-channel10`, `Eth1/1/2`, `ii1/1/1`, `mgmt0`."""
RANGE = re.compile(r"(?P<stem>[A-Za-z][A-Za-z-]*+(?:\d+[/.])*)?(?P<first>\d+)(?:\s*-\s*(?P<last>\d+))?")
MOST_IN_RANGE = 4096


def read_object(text: str) -> Fields | None:
    """Return the object of a JSON answer, unwrapped if it comes from NX-API; None if the answer is text.

    Prompts and banners around it are left out.
    """
    begun = OBJECT.search(text)
    if not begun:
        return None
    end = text.rfind("}") + 1
    fields = Fields(json_value(text[begun.start() : end if end > begun.start() else None]))
    if api := fields.sub("ins_api"):
        outputs = api.sub("outputs") or Fields({})
        return _body(_rows(outputs.get("output")))
    if "jsonrpc" in fields:
        return _body(_rows(fields.get("result")))
    return fields


def _body(outputs: list[Fields]) -> Fields:
    if len(outputs) != 1:
        raise ParseError(f"{len(outputs)} answers of NX-API instead of one")
    return outputs[0].sub("body") or Fields({})


def rows(fields: Fields, name: str) -> list[Fields]:
    """Return the rows of a table; a table that is absent has none."""
    tables = _rows(fields.get(f"TABLE_{name}"))
    return [row for table in tables for row in _rows(table.get(f"ROW_{name}"))]


def _rows(value: object) -> list[Fields]:
    if value is None or value == "":
        return []
    return [Fields(item) for item in value] if isinstance(value, list) else [Fields(value)]


def value_of(fields: Fields, key: str) -> str | None:
    """Return a value as text, whether it is a string or a number; None if it is absent or `-`."""
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, str):
        text = value.strip()
    elif isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    else:
        raise ParseError(f"field {key!r} is neither text nor a whole number", line=str(value)[:80])
    return None if text.lower() in NO_VALUE else text


def require(fields: Fields, key: str) -> str:
    """Return a value as text."""
    value = value_of(fields, key)
    if value is None:
        raise ParseError(f"no field {key!r}", line=str(dict(fields.items()))[:120])
    return value


def count(fields: Fields, key: str) -> int | None:
    """Return a number; None if it is absent or `-`."""
    value = value_of(fields, key)
    return None if value is None else integer(value)


def optional_integer(text: str) -> int | None:
    """Return the number in a cell of a table; None for `-`."""
    return None if text.strip().lower() in NO_VALUE else integer(text)


def port_name(text: str) -> str:
    """Return the full name of a port: `Eth1/1` is `Ethernet1/1`; internal ports (`ii1/1/1`) keep their name."""
    return SHORT_ETHERNET.sub("Ethernet", text.strip(), count=1) if text.strip()[:3].lower() == "eth" else text.strip()


def find_port(ports: Mapping[str, T], name: str) -> T | None:
    """Return the value for a port, no matter how its name is written."""
    key = port_key(name)
    return next((value for port, value in ports.items() if port_key(port) == key), None)


def bitmap(text: str) -> tuple[int, ...]:
    """Return the priorities of a bitmap that is printed in hexadecimal: `8` is priority 3, `20` priority 5."""
    bits = integer(text, base=16)
    if not 0 <= bits < 256:
        raise ParseError("a bitmap of more than eight priorities", line=text)
    return tuple(priority for priority in range(8) if bits >> priority & 1)


def port_names(text: str) -> list[str]:
    """Return the full names of a list of ports with ranges: `eth1/51-54` and `Eth1/1, Eth1/5-6, port-channel1-2`."""
    names: list[str] = []
    stem = ""
    for part in text.split(","):
        match = RANGE.fullmatch(part.strip())
        if not match or not (match["stem"] or stem):
            raise ParseError("expected a list of ports", line=text)
        stem = match["stem"] or stem
        first = integer(match["first"])
        last = integer(match["last"]) if match["last"] else first
        if not 0 <= last - first < MOST_IN_RANGE - len(names):
            raise ParseError("expected a list of ports", line=text)
        names += [port_name(f"{stem}{number}") for number in range(first, last + 1)]
    return names


def content(lines: Lines) -> Iterator[str]:
    """Yield the lines of a text without their indentation, except slot headings."""
    for line in lines:
        if not SLOT.fullmatch(line.strip()):
            yield line.strip()
