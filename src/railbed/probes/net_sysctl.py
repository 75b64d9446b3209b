"""How the kernel answers ARP and filters packets by their source, per interface (net.ipv4.conf)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

Setting = Literal["rp_filter", "arp_ignore", "arp_announce", "arp_filter"]
FILE = re.compile(r"(?:.*/)?([^/:\s]+)/(rp_filter|arp_ignore|arp_announce|arp_filter):\s*(-?\d+)\s*", re.ASCII)
SYSCTL = re.compile(
    r"net[./]ipv4[./]conf[./](\S+)[./](rp_filter|arp_ignore|arp_announce|arp_filter)\s*=\s*(-?\d+)\s*", re.ASCII
)
OTHER = re.compile(r"sysctl: .*|\w++[./]\S++ ?=.*")
"""Other settings of `sysctl -a`, and its complaints about some that it may not read."""
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArpSettings:
    """Settings of one interface, or of all; None if it was not printed."""

    rp_filter: int | None = None
    """0: off, 1: a packet has to come in where its answer would leave (strict), 2: anywhere (loose)."""
    arp_ignore: int | None = None
    arp_announce: int | None = None
    arp_filter: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArpSysctls(TextFacts):
    """Settings by interface; `all` and `default` are in it, too."""

    interfaces: dict[str, ArpSettings]

    def in_force(self, netdev: str, setting: Setting) -> int | None:
        """Return what the kernel uses for an interface: the larger of its own value and that of all."""
        own, common = self.interfaces.get(netdev), self.interfaces.get(ALL)
        values: list[int | None] = [getattr(settings, setting, None) for settings in (own, common)]
        known = [value for value in values if value is not None]
        return max(known) if len(known) == len(values) else None


def parse(text: str) -> ArpSysctls:
    """Read `path:value` lines, or those of sysctl, whose other settings are not needed."""
    interfaces: dict[str, dict[str, int]] = {}
    lines = Lines(text)
    for line in lines:
        words = line.strip()
        with lines.reading(line):
            if match := FILE.fullmatch(words):
                interfaces.setdefault(match[1], {})[match[2]] = integer(match[3])
            elif match := SYSCTL.fullmatch(words):
                # sysctl writes the dot in the name of a VLAN as a slash.
                interfaces.setdefault(match[1].replace("/", "."), {})[match[2]] = integer(match[3])
            elif not OTHER.fullmatch(words):
                lines.unknown(line)
    lines.require(interfaces, "no setting of an interface")
    return ArpSysctls(
        interfaces={name: _settings(values) for name, values in interfaces.items()},
        not_understood=lines.not_understood,
    )


def _settings(values: Mapping[str, int]) -> ArpSettings:
    return ArpSettings(
        rp_filter=values.get("rp_filter"),
        arp_ignore=values.get("arp_ignore"),
        arp_announce=values.get("arp_announce"),
        arp_filter=values.get("arp_filter"),
    )


PROBE = Probe(
    name="net_sysctl",
    title="ARP and reverse-path filter of every interface",
    command="cd /proc/sys/net/ipv4/conf && grep -sH '' */rp_filter */arp_ignore */arp_announce */arp_filter",
    parse=parse,
    facts=ArpSysctls,
)
