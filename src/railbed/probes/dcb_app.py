"""Which priority an interface gives to which traffic: DSCP, EtherType, port (`dcb -j app show`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing import dcb
from railbed.parsing.dcb import Words
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

MAPS = ("ethtype-prio", "dscp-prio", "stream-port-prio", "dgram-port-prio", "port-prio", "pcp-prio")
KEYWORDS = (*MAPS, "default-prio")
DSCP_NAMES = {"default": 0, "BE": 0, "LE": 1, "VA": 44, "EF": 46}


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The priorities of one interface; a key may have several."""

    dscp: dict[str, tuple[int, ...]]
    """By DSCP, in decimal."""
    default: tuple[int, ...] = ()
    others: dict[str, dict[str, tuple[int, ...]]]
    """Other kinds of keys, as the tool prints them: EtherType in hexadecimal, ports, PCP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcbApp(TextFacts):
    """Priorities by interface; the saved output of a single interface is under the empty name."""

    interfaces: dict[str, App]
    refused: dict[str, str]
    """The kernel's error message for interfaces that do not support it."""


def parse(text: str) -> DcbApp:
    """Read the sections of all interfaces, or the JSON or text of one. A section without entries has none."""
    lines = Lines(text)
    priorities, refused = dcb.read_interfaces(lines, KEYWORDS)
    return DcbApp(
        interfaces={name: _app(words) for name, words in priorities.items()},
        refused=refused,
        not_understood=lines.not_understood,
    )


def dscp_number(word: str) -> int:
    """Return the DSCP of `AF31`, `CS6`, `EF`, `26` or `0x1a`."""
    match = re.fullmatch(r"AF([1-4])([1-3])|CS([0-7])", word)
    if match:
        return int(match[1]) * 8 + int(match[2]) * 2 if match[1] else int(match[3]) * 8
    if word in DSCP_NAMES:
        return DSCP_NAMES[word]
    number = integer(word, base=16 if word.lower().startswith("0x") else 10)
    if not 0 <= number <= 63:
        raise ParseError("expected a DSCP", line=word)
    return number


def _app(words: Words) -> App:
    return App(
        dscp=_priorities((str(dscp_number(key)), value) for key, value in words.pairs("dscp-prio")),
        default=tuple(integer(word) for word in words.words.get("default-prio", [])),
        others={key: _priorities(words.pairs(key)) for key in MAPS if key != "dscp-prio" and key in words},
    )


def _priorities(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[int, ...]]:
    priorities: dict[str, tuple[int, ...]] = {}
    for key, value in pairs:
        priority = integer(value)
        if priority not in priorities.get(key, ()):
            priorities[key] = (*priorities.get(key, ()), priority)
    return priorities


PROBE = Probe(
    name="dcb_app",
    title="priorities by DSCP and other keys of interfaces",
    command=dcb.command("app"),
    parse=parse,
    facts=DcbApp,
    tool="dcb",
    package="iproute2",
    one_line=True,
)
