"""Bonds and their members (`/proc/net/bonding`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import key_and_value
from railbed.parsing.text import integer

TITLE = "Ethernet Channel Bonding Driver:"
MEMBER = "Slave Interface"
NO_PARTNER = "00:00:00:00:00:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One interface of a bond."""

    name: str
    up: bool | None = None
    speed_mbps: int | None = None
    failures: int | None = None
    """How often its link failed since it joined the bond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bond:
    """One bond."""

    mode: str
    """As the driver writes it: `IEEE 802.3ad Dynamic link aggregation`, `fault-tolerance (active-backup)`, …"""
    hash_policy: str | None = None
    up: bool | None = None
    active: str | None = None
    """The member in use, in a mode that uses one at a time."""
    lacp_rate: str | None = None
    lacp_partner: str | None = None
    """MAC address of the switch that speaks LACP; None if none does."""
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bonds(TextFacts):
    """Bonds by name; a machine may have none."""

    bonds: dict[str, Bond]


def parse(text: str) -> Bonds:
    """Read one or many files of /proc/net/bonding; empty text means no bond."""
    if not text.strip():
        return Bonds(bonds={})
    lines = Lines(text)
    bonds = {name: _bond(part) for name, part in lines.sections()}
    return Bonds(bonds=bonds, not_understood=lines.not_understood)


def _bond(lines: Lines) -> Bond:
    lines.require(TITLE in lines.text, f"expected {TITLE!r}")
    head, *members = _blocks(lines)
    if "Bonding Mode" not in head:
        raise ParseError("no line `Bonding Mode:`")
    active = head.get("Currently Active Slave")
    partner = head.get("Partner Mac Address")
    return Bond(
        mode=head["Bonding Mode"],
        hash_policy=head.get("Transmit Hash Policy"),
        up=_up(head),
        active=None if active == "None" else active,
        lacp_rate=head.get("LACP rate"),
        lacp_partner=None if partner == NO_PARTNER else partner,
        members=tuple(map(_member, members)),
    )


def _blocks(lines: Lines) -> list[dict[str, str]]:
    """Return the bond's own lines, then those of each member; titles such as `802.3ad info` have no value."""
    blocks: list[dict[str, str]] = [{}]
    is_begun = False
    for line in lines:
        if line.startswith(TITLE):
            if is_begun:
                raise ParseError("several bonds without their names", line=line)
            is_begun = True
            continue
        if ":" not in line or not is_begun:
            if not line.endswith(" info"):
                lines.unknown(line)
            continue
        key, value = key_and_value(line)
        if key == MEMBER:
            blocks.append({})
        blocks[-1].setdefault(key, value)
    return blocks


def _member(block: dict[str, str]) -> Member:
    speed, failures = block.get("Speed", ""), block.get("Link Failure Count")
    return Member(
        name=block[MEMBER],
        up=_up(block),
        speed_mbps=integer(speed.removesuffix("Mbps")) if speed.endswith("Mbps") else None,
        failures=None if failures is None else integer(failures),
    )


def _up(block: dict[str, str]) -> bool | None:
    status = block.get("MII Status")
    return None if status is None else status == "up"


PROBE = Probe(
    name="bonding",
    title="bonds: mode, members, LACP",
    command=(
        'for file in /proc/net/bonding/*; do if [ -e "$file" ]; then echo "==> ${file##*/} <=="; cat "$file"; fi; done'
    ),
    parse=parse,
    facts=Bonds,
)
