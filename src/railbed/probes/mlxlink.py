"""What NVIDIA's cards measure on their links: FEC, bit error rates, advice (`mlxlink -d ADDRESS -p PORT -c`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.mellanox import SECONDS, for_each_card
from railbed.parsing.text import Fields, integer, json_value

RATE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)[eE]-(\d{1,3})", re.ASCII)
COUNT = re.compile(r"\d{1,19}", re.ASCII)
FAILURE = "-E-"
NOT_NEEDED = re.compile(r"[A-Z][\w ()/-]*(?:Info|Information|Counters)")
"""Titles of tables."""
NO_VALUE = ("", "N/A", "None")
STATE, RAW = "State", "Raw Physical BER"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuality:
    """One port of a card."""

    state: str | None = None
    """`Active`, `Polling`, `Disable`, …"""
    speed: str | None = None
    fec: str | None = None
    raw_ber: float | None = None
    """Share of bits that arrive wrong, before FEC."""
    effective_ber: float | None = None
    """Share of bits that FEC did not correct."""
    symbol_ber: float | None = None
    effective_errors: int | None = None
    link_downs: int | None = None
    minutes: float | None = None
    """How long the card has been counting."""
    advice: str | None = None
    """What the card sees wrong; `No issue was observed` is not listed."""
    problem: str | None = None
    """Why the tool has no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQualities(TextFacts):
    """Ports by `0000:01:00.0/1`, or under the empty name; none without the tool."""

    ports: dict[str, LinkQuality]


def parse(text: str) -> LinkQualities:
    """Read sections of ports, or what a person saved of one, as text or JSON; no output means no tool or no card."""
    lines = Lines(text)
    ports = {}
    for name, part in lines.sections():
        values, problem = (dict(_of_json(part.json)), None) if part.json else _of_text(part)
        if problem or {STATE, RAW} & values.keys():
            ports[name] = _quality(values, problem)
    lines.require(ports or not text.strip(), "no state of a link")
    return LinkQualities(ports=ports, not_understood=lines.not_understood)


def _of_text(lines: Lines) -> tuple[dict[str, str], str | None]:
    """Return the values of all tables, most of which are not needed, and why the tool failed."""
    values: dict[str, str] = {}
    problem = None
    for line in map(str.strip, lines):
        key, colon, value = line.partition(":")
        if FAILURE in line:
            problem = problem or line.partition(FAILURE)[2].strip() or "it failed"
        elif colon:
            values[key.strip()] = value.strip()
        elif not NOT_NEEDED.fullmatch(line):
            lines.unknown(line)
    return values, problem


def _of_json(body: str) -> Iterator[tuple[str, str]]:
    """Yield the values of all sections; lanes are lists in `values`, which do not matter here."""
    result = Fields(json_value(body)).sub("result") or Fields({})
    output = result.sub("output") or Fields({})
    for section in dict(output.items()).values():
        if isinstance(section, dict):
            yield from ((key, str(value)) for key, value in section.items() if isinstance(value, str | int | float))


def _quality(values: Mapping[str, str], problem: str | None) -> LinkQuality:
    advice = _text(values, "Recommendation")
    minutes = _text(values, "Time Since Last Clear [Min]")
    return LinkQuality(
        state=_text(values, STATE),
        speed=_text(values, "Speed"),
        fec=_text(values, "FEC"),
        raw_ber=_rate(values, RAW),
        effective_ber=_rate(values, "Effective Physical BER"),
        symbol_ber=_rate(values, "Symbol BER"),
        effective_errors=_count(values, "Effective Physical Errors"),
        link_downs=_count(values, "Link Down Counter"),
        minutes=float(minutes) if minutes and re.fullmatch(r"\d{1,9}(\.\d{1,3})?", minutes, re.ASCII) else None,
        advice=None if not advice or advice.startswith("No issue") else advice,
        problem=problem,
    )


def _text(values: Mapping[str, str], name: str) -> str | None:
    value = values.get(name, "")
    return None if value in NO_VALUE else value


def _rate(values: Mapping[str, str], name: str) -> float | None:
    """Return `15E-255`, with which the tool writes that there was no error, as zero."""
    match = RATE.fullmatch(values.get(name, ""))
    if not match:
        return 0.0 if values.get(name) == "0" else None
    exponent = integer(match[2])
    return 0.0 if exponent > 100 else float(match[1]) * 10.0**-exponent


def _count(values: Mapping[str, str], name: str) -> int | None:
    value = values.get(name, "")
    return integer(value) if COUNT.fullmatch(value) else None


def command(cluster: Cluster, device: str) -> str:
    """Return the command for the ports of a node."""
    return for_each_card(cluster, device, ("mlxlink", "mstlink"), '-d "$address" -p "$port" -c')


PROBE = Probe(
    name="mlxlink",
    title="FEC and bit error rates of NVIDIA's cards",
    command=command,
    parse=parse,
    facts=LinkQualities,
    needs_root=True,
    timeout=SECONDS + 10.0,
    one_line=True,
)
