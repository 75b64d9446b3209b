"""tcpdump: its version, that of libpcap, and the interfaces it can capture on (`tcpdump --version`, `tcpdump -D`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import sections

VERSION = re.compile(r"^(tcpdump|libpcap) version (\S+)", re.MULTILINE)
INTERFACE = re.compile(r"\d++\.([^\s\[(]++)(.*)", re.ASCII)
RDMA = "RDMA sniffer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpdumpVersion:
    """What tcpdump can do on a machine."""

    version: str
    libpcap: str | None = None
    interfaces: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()
    """RDMA devices whose packets libpcap can capture on the card."""


def parse(text: str) -> TcpdumpVersion:
    """Read the sections `version` and `interfaces`; the versions alone also do."""
    parts = dict(sections(text))
    versions = dict(VERSION.findall(parts.get("version", parts.get("", ""))))
    if "tcpdump" not in versions:
        raise ParseError("expected `tcpdump version …`", line=text.strip()[:80])
    names: dict[str, bool] = {}
    for line in parts.get("interfaces", "").splitlines():
        if not line.strip():
            continue
        match = INTERFACE.fullmatch(line.strip())
        if not match:
            raise ParseError("expected `NUMBER.INTERFACE`", line=line)
        names[match.group(1)] = RDMA in match.group(2)
    return TcpdumpVersion(
        version=versions["tcpdump"],
        libpcap=versions.get("libpcap"),
        interfaces=tuple(name for name, is_rdma in names.items() if not is_rdma),
        rdma=tuple(name for name, is_rdma in names.items() if is_rdma),
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
