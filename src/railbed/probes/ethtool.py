"""Ethernet settings of every interface: speed, duplex, port, link modes (`ethtool IF`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import answers, for_each_interface, without_title

KEY = re.compile(r"^\s+([A-Za-z][A-Za-z0-9 ()/-]*):(.*)$")
SPEED = re.compile(r"^(\d{1,9})Mb/s$", re.ASCII)
ANY = re.compile("")
READABLE = {
    "Speed": re.compile(r"Speed: *+(?:\d{1,9}Mb/s$|Unknown|Not reported|N/A)", re.ASCII),
    "Link detected": re.compile(r"Link detected: *+(?:yes|no)\b"),
}
"""What settings look like that are not just words."""
CONTINUED = re.compile(r"\d++base\S.*|[a-z_ ]++|(?:(?:None|RS|BASER|LLRS|Off|Auto)\b\s*+)++")
"""Further link modes, or message levels."""
NO_VALUE = ("Unknown", "Not reported", "N/A")


@dataclass(frozen=True, slots=True, kw_only=True)
class EthernetSettings:
    """What ethtool reports for one interface; little for virtual ones."""

    speed_mbps: int | None = None
    lanes: int | None = None
    duplex: str | None = None
    """`Full` or `Half`."""
    port: str | None = None
    """`FIBRE`, `Direct Attach Copper`, `Twisted Pair`, …"""
    autoneg: bool | None = None
    link: bool | None = None
    link_reason: str | None = None
    """Why there is no link, if the driver reports it: `No cable`, …"""
    supported_modes: tuple[str, ...] = ()
    advertised_modes: tuple[str, ...] = ()
    partner_modes: tuple[str, ...] = ()
    supported_fec: tuple[str, ...] = ()
    advertised_fec: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ethernet(TextFacts):
    """Ethernet settings by interface."""

    interfaces: dict[str, EthernetSettings]


def parse(text: str) -> Ethernet:
    """Read `ethtool IF` of one or many interfaces."""
    lines = Lines(text)
    interfaces = {
        name: _settings(_values(without_title(body, "Settings for ", lines), lines)) for name, body in answers(lines)
    }
    lines.require_known("expected 'Settings for '")
    return Ethernet(interfaces=interfaces, not_understood=lines.not_understood)


def _values(body: list[str], lines: Lines) -> dict[str, list[str]]:
    """Gather the values by key: link modes and message levels span several lines."""
    values: dict[str, list[str]] = {}
    key = ""
    for line in body:
        match = KEY.match(line)
        if match and READABLE.get(match[1], ANY).match(line.strip()):
            key = match.group(1)
            values[key] = [match.group(2).strip()]
        elif not match and key and line[0].isspace() and CONTINUED.fullmatch(line.strip()):
            values[key].append(line.strip())
        else:
            lines.unknown(line)
    return values


def _settings(values: dict[str, list[str]]) -> EthernetSettings:
    link, reason = _link(_value(values, "Link detected"))
    autoneg = _value(values, "Auto-negotiation")
    lanes = _value(values, "Lanes")
    return EthernetSettings(
        speed_mbps=_speed(_value(values, "Speed")),
        lanes=int(lanes) if lanes and lanes.isascii() and lanes.isdigit() and len(lanes) < 4 else None,
        duplex=_value(values, "Duplex"),
        port=_value(values, "Port"),
        autoneg=None if autoneg is None else autoneg == "on",
        link=link,
        link_reason=reason,
        supported_modes=_words(values, "Supported link modes"),
        advertised_modes=_words(values, "Advertised link modes"),
        partner_modes=_words(values, "Link partner advertised link modes"),
        supported_fec=_words(values, "Supported FEC modes"),
        advertised_fec=_words(values, "Advertised FEC modes"),
    )


def _value(values: dict[str, list[str]], key: str) -> str | None:
    value = " ".join(values.get(key, [])).strip()
    return None if not value or value.startswith(NO_VALUE) else value


def _words(values: dict[str, list[str]], key: str) -> tuple[str, ...]:
    return tuple((_value(values, key) or "").split())


def _speed(value: str | None) -> int | None:
    if value is None:
        return None
    match = SPEED.match(value)
    return int(match.group(1)) if match else None


def _link(value: str | None) -> tuple[bool | None, str | None]:
    if value is None:
        return None, None
    word, _, reason = value.partition(" ")
    return word == "yes", reason.strip("() ") or None


PROBE = Probe(
    name="ethtool",
    title="Ethernet settings: speed, duplex, port, link modes",
    command=for_each_interface('ethtool "$name"'),
    parse=parse,
    facts=Ethernet,
    tool="ethtool",
    package="ethtool",
)
