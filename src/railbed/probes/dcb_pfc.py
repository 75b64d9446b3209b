"""Priority flow control of every interface (`dcb -j pfc show`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing import dcb
from railbed.parsing.dcb import Words
from railbed.parsing.lines import Lines, TextFacts

KEYWORDS = ("pfc-cap", "macsec-bypass", "delay", "prio-pfc", "requests", "indications")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pfc:
    """Priority flow control of one interface."""

    enabled: tuple[int, ...]
    """Priorities on which it is on."""
    pfc_cap: int | None = None
    """How many priorities the card supports it on."""
    delay: int | None = None
    macsec_bypass: bool | None = None
    requests: tuple[int, ...] | None = None
    """Pause frames sent, by priority; only with `dcb -s`."""
    indications: tuple[int, ...] | None = None
    """Pause frames received, by priority; only with `dcb -s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcbPfc(TextFacts):
    """Priority flow control by interface; the saved output of a single interface is under the empty name."""

    interfaces: dict[str, Pfc]
    refused: dict[str, str]
    """The kernel's error message for interfaces that do not support it."""


def parse(text: str) -> DcbPfc:
    """Read the sections of all interfaces, or the JSON or text of one."""
    lines = Lines(text)
    interfaces, refused = dcb.read_interfaces(lines, KEYWORDS)
    return DcbPfc(
        interfaces={name: _pfc(words) for name, words in interfaces.items()},
        refused=refused,
        not_understood=lines.not_understood,
    )


def _pfc(words: Words) -> Pfc:
    row = words.row("prio-pfc")
    if row is None:
        raise ParseError("no prio-pfc")
    return Pfc(
        enabled=tuple(priority for priority, word in enumerate(row) if dcb.on_or_off(word)),
        pfc_cap=words.number("pfc-cap"),
        delay=words.number("delay"),
        macsec_bypass=words.switch("macsec-bypass"),
        requests=words.numbers("requests"),
        indications=words.numbers("indications"),
    )


PROBE = Probe(
    name="dcb_pfc",
    title="priority flow control of interfaces",
    command=dcb.command("pfc"),
    parse=parse,
    facts=DcbPfc,
    tool="dcb",
    package="iproute2",
    one_line=True,
)
