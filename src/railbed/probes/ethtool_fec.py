"""Forward error correction of every card: what is set, what is active, and what it corrected (`ethtool --show-fec`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import answers, for_each_interface
from railbed.parsing.text import Fields, integer, json_list

CONFIGURED = re.compile(r"(?:Supported/)?Configured FEC encodings?:(.*)")
ACTIVE = re.compile(r"Active FEC encodings?:(.*)")
NOT_NEEDED = re.compile(r"FEC parameters for \S+:|Statistics:|Lane \d{1,3}:.*|fec_symbols?_err_\w+:.*", re.ASCII)
"""Titles, and counters of lanes and in histograms."""
COUNTER = re.compile(r"(corrected_blocks|uncorrectable_blocks|corrected_bits):\s*(\d+)\b.*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FecSettings:
    """FEC of one interface; no encodings if the driver does not report any."""

    configured: tuple[str, ...] = ()
    """`Auto`, `RS`, `BaseR`, `LLRS`, `Off`, `None`: what is set, or what the card supports."""
    active: tuple[str, ...] = ()
    corrected_blocks: int | None = None
    uncorrectable_blocks: int | None = None
    corrected_bits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fec(TextFacts):
    """FEC by interface."""

    interfaces: dict[str, FecSettings]


def parse(text: str) -> Fec:
    """Read the text of one or many interfaces, or ethtool's JSON; histograms and lanes are not needed."""
    lines = Lines(text)
    if lines.json:
        return Fec(interfaces=dict(_of_json(lines.json)))
    interfaces = {name: _settings(body, lines) for name, body in answers(lines)}
    lines.require_known("no FEC encoding")
    return Fec(interfaces=interfaces, not_understood=lines.not_understood)


def _settings(body: list[str], lines: Lines) -> FecSettings:
    encodings: dict[str, tuple[str, ...]] = {}
    counters: dict[str, int] = {}
    for line in map(str.strip, body):
        if match := CONFIGURED.fullmatch(line):
            encodings["configured"] = tuple(match[1].split())
        elif match := ACTIVE.fullmatch(line):
            encodings["active"] = tuple(match[1].split())
        elif match := COUNTER.fullmatch(line):
            counters[match[1]] = integer(match[2])
        elif not NOT_NEEDED.fullmatch(line):
            lines.unknown(line)
    return FecSettings(
        configured=encodings.get("configured", ()),
        active=encodings.get("active", ()),
        corrected_blocks=counters.get("corrected_blocks"),
        uncorrectable_blocks=counters.get("uncorrectable_blocks"),
        corrected_bits=counters.get("corrected_bits"),
    )


def _of_json(text: str) -> Iterator[tuple[str, FecSettings]]:
    for item in map(Fields, json_list(text)):
        statistics = item.sub("statistics") or Fields({})
        yield (
            item.text("ifname"),
            FecSettings(
                configured=tuple(item.texts("config")),
                active=tuple(item.texts("active")),
                corrected_blocks=_total(statistics, "corrected_blocks"),
                uncorrectable_blocks=_total(statistics, "uncorrectable_blocks"),
                corrected_bits=_total(statistics, "corrected_bits"),
            ),
        )


def _total(statistics: Fields, name: str) -> int | None:
    values = statistics.sub(name)
    return values.optional_integer("total") if values else None


PROBE = Probe(
    name="ethtool_fec",
    title="forward error correction: set, active, corrected",
    command=for_each_interface(
        '[ ! -e "$path/device" ] || ethtool -I --show-fec "$name" 2>/dev/null || ethtool --show-fec "$name"'
    ),
    parse=parse,
    facts=Fec,
    tool="ethtool",
    package="ethtool",
    twice=True,
)
