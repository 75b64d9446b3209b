"""Firmware settings of NVIDIA's cards: default, in force, after the next boot (`mlxconfig -d ADDRESS -e query`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.mellanox import SECONDS, for_each_card

HEADER = re.compile(r"Configurations:\s+(\S.*)")
DEVICE = re.compile(r"Device(?P<type> type)?:\s*+(?P<value>\S++).*")
ROW = re.compile(r"(?:\*\s*)?(?:RO\s+)?([A-Z][A-Z0-9_]{2,63}(?:\[[\d.]+\])?)\s+(\S.*)", re.ASCII)
NUMBER = re.compile(r"\((-?\d{1,19})\)", re.ASCII)
FAILURE = "-E-"
NOT_NEEDED = re.compile(r"Device #\d{1,4}:|(?:Name|Description):.*|The '\*' shows .*", re.ASCII)
COLUMNS = {"Default": "default", "Current": "current", "Next": "next"}
OF_INTEREST = (
    "LINK_TYPE|ROCE_CC|CNP_|PCI_WR_ORDERING|ADVANCED_PCI|MAX_ACC_OUT|SRIOV|NUM_OF_VFS|ATS_ENABLED|RPG_|DCE_TCP|RATE_RED"
    "|INITIAL_ALPHA|MIN_TIME_BETWEEN|LLDP_NB|DCBX_|PHY_FEC|ROCE_CONTROL|KEEP_ETH"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareSetting:
    """One setting; numbers where the tool prints `NAME(number)`."""

    default: str | None = None
    current: str | None = None
    """In force; None if the tool was not asked for it (`-e`)."""
    next: str | None = None
    """From the next boot of the machine, or reset of the card, on."""

    @property
    def is_pending(self) -> bool:
        """Whether the next boot changes it."""
        return None not in (self.current, self.next) and self.current != self.next


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFirmware:
    """The settings of one card."""

    type: str | None = None
    settings: dict[str, FirmwareSetting] = field(default_factory=dict)
    problem: str | None = None
    """Why the tool has no settings."""

    def in_force(self, name: str) -> int | None:
        """Return the number of a setting now, or if the tool does not show that, from the next boot on."""
        setting = self.settings.get(name)
        return number_of(setting.current or setting.next) if setting else None

    def after_boot(self, name: str) -> int | None:
        """Return the number of a setting from the next boot on."""
        setting = self.settings.get(name)
        return number_of(setting.next) if setting else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareSettings(TextFacts):
    """Settings by card and port (`0000:01:00.0/1`), or by what the tool names; none without the tool."""

    cards: dict[str, CardFirmware]

    def of(self, address: str) -> CardFirmware | None:
        """Return the settings of the card at a PCI address."""
        return next((card for name, card in self.cards.items() if name.partition("/")[0] == address), None)


def number_of(value: str | None) -> int | None:
    """Return the number of `ETH(2)` or `48`; None if there is none."""
    if value is None:
        return None
    match = NUMBER.search(value)
    word = match[1] if match else value
    return int(word) if re.fullmatch(r"-?\d{1,19}", word, re.ASCII) else None


def parse(text: str) -> FirmwareSettings:
    """Read sections of cards, or what a person saved of one; no output means no tool or no card."""
    lines = Lines(text)
    cards: dict[str, CardFirmware] = {}
    for name, part in lines.sections():
        for shown in _by_card(part):
            address, card = _card(shown, part)
            if card.settings or card.problem:
                cards.setdefault(name or address, card)
    lines.require(cards or not text.strip(), "no firmware setting")
    return FirmwareSettings(cards=cards, not_understood=lines.not_understood)


def _by_card(lines: Lines) -> Iterator[list[str]]:
    """Yield the lines of each card: a query without `-d` shows all."""
    body: list[str] = []
    for line in map(str.strip, lines):
        if (shown := DEVICE.fullmatch(line)) and shown["type"]:
            yield body
            body = []
        body.append(line)
    yield body


def _card(body: list[str], lines: Lines) -> tuple[str, CardFirmware]:
    """Return the address of a card, if it is shown, and its settings."""
    columns = ["next"]
    settings: dict[str, FirmwareSetting] = {}
    device: dict[str, str] = {}
    problem = None
    for line in body:
        if header := HEADER.fullmatch(line):
            columns = [COLUMNS[word] for word in header[1].split() if word in COLUMNS]
        elif (row := ROW.fullmatch(line)) and len(values := _cells(row[2])) == len(columns):
            settings[row[1]] = FirmwareSetting(**dict(zip(columns, values, strict=True)))
        elif shown := DEVICE.fullmatch(line):
            device.setdefault("type" if shown["type"] else "address", shown["value"])
        elif FAILURE in line:
            problem = problem or line.partition(FAILURE)[2].strip() or "it failed"
        elif not NOT_NEEDED.fullmatch(line):
            lines.unknown(line)
    return device.get("address", ""), CardFirmware(
        type=device.get("type"), settings=settings, problem=None if settings else problem
    )


def _cells(text: str) -> list[str]:
    """Return the values of a row; one with blanks in it has them in brackets: `Array[0..3]` has none here."""
    return list(_join_brackets(text.split()))


def _join_brackets(words: list[str]) -> Iterator[str]:
    """Yield words, and those of a bracket that is open as one."""
    parts: list[str] = []
    for word in words:
        parts.append(word)
        joined = " ".join(parts)
        if joined.count("(") <= joined.count(")"):
            yield joined
            parts = []
    if parts:
        yield " ".join(parts)


def command(cluster: Cluster, device: str) -> str:
    """Return the command for the cards of a node: only rows that matter, and those that change at the next boot."""
    query = f""" -d "$address" -e query 2>&1 | grep -E '^ *[*]|Configurations|Device|-E-|{OF_INTEREST}'"""
    return for_each_card(cluster, device, ("mlxconfig", "mstconfig"), query)


PROBE = Probe(
    name="mlxconfig",
    title="firmware settings of NVIDIA's cards, now and after the next boot",
    command=command,
    parse=parse,
    facts=FirmwareSettings,
    needs_root=True,
    timeout=SECONDS + 10.0,
)
