"""Cards of an ESXi host: `esxcli network nic list`, `get` and `stats get`, and `esxcfg-nics -l`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.parsing.esxi.layout import below, fields, optional_count, require, split_list, table, truth, word
from railbed.parsing.text import integer

LINE = re.compile(
    r"(\S++) ++([0-9a-f:.]++) ++(\S++) ++(Up|Down) ++(\d++)Mbps ++(Full|Half) ++([0-9a-f:]{17}) ++(\d++) *+(.*)",
    re.ASCII,
)
HEADING = re.compile(r"Name +PCI +Driver +Link +Speed\b")
STATISTICS = re.compile(r"NIC statistics for \S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiCard:
    """A port of a card that the host drives."""

    name: str
    pci: str
    driver: str
    up: bool
    mbps: int | None
    """None without a link."""
    mac: str
    mtu: int
    description: str
    admin_up: bool | None = None
    """None if the command does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiCardDetails:
    """What `esxcli network nic get` reports of a port."""

    name: str
    driver: str
    driver_version: str | None
    firmware: str | None
    up: bool | None
    link_modes: tuple[str, ...]
    cable: str | None
    pause_rx: bool | None
    pause_tx: bool | None
    pause_auto: bool | None


def parse_cards(text: str) -> list[EsxiCard]:
    """Read `esxcli network nic list`, or `esxcfg-nics -l`."""
    if HEADING.search(text):
        return [_of_line(match) for line in text.splitlines() if (match := LINE.fullmatch(line.rstrip()))]
    rows = table(text, "Name", "PCI Device", "Driver", "Link Status", "Speed", "MAC Address", "MTU")
    return [
        EsxiCard(
            name=row["Name"],
            pci=row["PCI Device"],
            driver=row["Driver"],
            up=row["Link Status"] == "Up",
            mbps=integer(row["Speed"]) or None,
            mac=row["MAC Address"],
            mtu=integer(row["MTU"]),
            description=row.get("Description", ""),
            admin_up=None if "Admin Status" not in row else row["Admin Status"] == "Up",
        )
        for row in rows
    ]


def _of_line(match: re.Match[str]) -> EsxiCard:
    name, pci, driver, link, mbps, _, mac, mtu, description = match.groups()
    return EsxiCard(
        name=name,
        pci=pci,
        driver=driver,
        up=link == "Up",
        mbps=integer(mbps) or None,
        mac=mac,
        mtu=integer(mtu),
        description=description,
    )


def parse_details(text: str) -> EsxiCardDetails:
    """Read `esxcli network nic get`."""
    tree = fields(text)
    driver = below(tree, "Driver Info")
    link = word(tree, "Link Status")
    return EsxiCardDetails(
        name=require(tree, "Name"),
        driver=require(driver, "Driver"),
        driver_version=word(driver, "Version"),
        firmware=word(driver, "Firmware Version"),
        up=None if link is None else link == "Up",
        link_modes=split_list(word(tree, "Advertised Link Modes")),
        cable=word(tree, "Cable Type"),
        pause_rx=truth(word(tree, "Pause RX")),
        pause_tx=truth(word(tree, "Pause TX")),
        pause_auto=truth(word(tree, "Pause Autonegotiate")),
    )


def parse_statistics(text: str) -> dict[str, int]:
    """Read `esxcli network nic stats get`: counters by their label. None of them is about pauses."""
    if not STATISTICS.search(text):
        raise ParseError("no statistics of a card", line=text.strip()[:80])
    tree = fields(text)
    return {label: count for label in tree if (count := optional_count(word(tree, label))) is not None}
