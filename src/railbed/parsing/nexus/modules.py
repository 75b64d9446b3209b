"""The modules of `show interface transceiver`, with or without `details`, as text and as JSON: which port has which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from railbed.parsing.lines import Lines
from railbed.parsing.nexus.answer import PORT_NAME, port_name, require, rows, value_of
from railbed.parsing.text import Fields

PORT = re.compile(rf"(?P<name>{PORT_NAME.pattern})(?P<rest> (?:transceiver|sfp) is .*)?")
PRESENT = re.compile(r"(?:transceiver|sfp) is (?P<absent>not )?present\b.*")
PROPERTY = re.compile(r"(type|name|part number|serial number) is (\S.*)")
KEYS = {"type": "type", "name": "name", "part number": "partnum", "serial number": "serialnum"}
MEASURED = re.compile(r"Lane Number\s*:.*|(?:Temperature|Voltage|Current|[TR]x Power)\s++(?:N/A|-?\d).*", re.IGNORECASE)
KNOWN = re.compile(
    r"[A-Za-z][\w /.()-]* (?:is|code|none)\b.*|SFP Detail.*|Current +Alarms.*|Measurement .*|Transmit Fault Count.*|"
    r"near-end lanes .*|Link length.*|number of lanes .*|Alarms .*|High .*"
)
"""Lines that no probe needs; what follows `is` is anything."""


@dataclass(slots=True)
class Cage:
    """A port and the module in it, if there is one."""

    port: str
    is_present: bool | None = None
    """None until a line shows it: other commands list ports in the same form."""
    names: dict[str, str] = field(default_factory=dict)
    """By the names of the text form: `type`, `name`, `part number`, `serial number`."""
    measured: list[str] = field(default_factory=list)
    """Lines about lanes."""
    lanes: list[Fields] = field(default_factory=list)
    """Lanes of the JSON form."""

    def take(self, words: str) -> bool:
        """Read a line; return whether it is known."""
        if match := PRESENT.fullmatch(words):
            self.is_present = match["absent"] is None
        elif match := PROPERTY.fullmatch(words):
            self.names.setdefault(match[1], match[2].strip())
        elif MEASURED.fullmatch(words):
            self.measured.append(words)
        else:
            return KNOWN.fullmatch(words) is not None
        return True


def cages(fields: Fields | None, lines: Lines) -> Iterator[Cage]:
    """Yield the ports of a JSON answer, or of the lines if there is none."""
    yield from _of_json(fields) if fields else _of_text(lines)


def _of_json(fields: Fields) -> Iterator[Cage]:
    for row in rows(fields, "interface"):
        yield Cage(
            port=port_name(require(row, "interface")),
            is_present=(value_of(row, "sfp") or "").startswith("present"),
            names={name: value for name, key in KEYS.items() if (value := value_of(row, key))},
            lanes=rows(row, "lane"),
        )


def _of_text(lines: Lines) -> Iterator[Cage]:
    cage = Cage("")
    for line in lines:
        words = line.strip()
        match = PORT.fullmatch(words)
        # At a second such line, the first line of another port was not recognised.
        if match or (PRESENT.fullmatch(words) and cage.is_present is not None):
            if cage.port and cage.is_present is not None:
                yield cage
            cage = Cage(port_name(match["name"]) if match else "")
            words = (match["rest"] or "").strip() if match else words
        if words and not (cage.port and cage.take(words)):
            lines.unknown(line)
    if cage.port and cage.is_present is not None:
        yield cage
