"""tcpdump: its version, that of libpcap, and the interfaces it can capture on (`tcpdump --version`, `tcpdump -D`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

VERSION = re.compile(r"(tcpdump|libpcap) version (\S+)")
BUILD = re.compile(r"OpenSSL|SMI|\d+-bit build|AddressSanitizer|MemorySanitizer|Capsicum|SDK")
INTERFACE = re.compile(r"\d++\.([^\s\[(]++)(.*)", re.ASCII)
RDMA = "RDMA sniffer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpdumpVersion(TextFacts):
    """What tcpdump can do on a machine."""

    version: str
    libpcap: str | None = None
    interfaces: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()
    """RDMA devices whose packets libpcap can capture on the card."""


def parse(text: str) -> TcpdumpVersion:
    """Read the sections `version` and `interfaces`; the versions alone also do."""
    lines = Lines(text)
    parts = dict(lines.sections())
    versions: dict[str, str] = {}
    for line in parts.get("version") or parts.get("") or ():
        if match := VERSION.match(line):
            versions.setdefault(match[1], match[2])
        elif not BUILD.match(line):
            lines.unknown(line)
    lines.require("tcpdump" in versions, "expected `tcpdump version …`")
    names: dict[str, bool] = {}
    for line in parts.get("interfaces") or ():
        if match := INTERFACE.fullmatch(line.strip()):
            names[match.group(1)] = RDMA in match.group(2)
        else:
            lines.unknown(line)
    return TcpdumpVersion(
        version=versions["tcpdump"],
        libpcap=versions.get("libpcap"),
        interfaces=tuple(name for name, is_rdma in names.items() if not is_rdma),
        rdma=tuple(name for name, is_rdma in names.items() if is_rdma),
        not_understood=lines.not_understood,
    )


PROBE = Probe(
    name="tcpdump",
    title="tcpdump, and the interfaces it can capture on",
    command="echo '==> version <=='; tcpdump --version 2>&1; echo '==> interfaces <=='; tcpdump -D 2>/dev/null; true",
    parse=parse,
    facts=TcpdumpVersion,
    tool="tcpdump",
    package="tcpdump",
)
