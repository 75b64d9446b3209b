"""The GID tables of all RDMA ports, as the OFED script `show_gids` prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.gids import Gid, gid_text, gid_type
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

ROW = re.compile(
    r"(\S+)\s+(\d{1,3})\s+(\d{1,5})\s+([0-9a-fA-F:]{2,})(?:\s+\d+\.\d+\.\d+\.\d+)?(?:\s+([vV]\d\S*))?(?:\s+(\S+))?",
    re.ASCII,
)
FRAME = re.compile(r"DEV\s+PORT\s+INDEX\s.*|[-\s]+|n_gids_found=\d*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class GidTables(TextFacts):
    """GIDs by `device/port`."""

    ports: dict[str, tuple[Gid, ...]]


def parse(text: str) -> GidTables:
    """Read the table; a table without rows means no GIDs."""
    ports: dict[str, tuple[Gid, ...]] = {}
    lines = Lines(text)
    for line in lines:
        match = ROW.fullmatch(line.strip())
        with lines.reading(line):
            if match:
                port = f"{match[1]}/{integer(match[2])}"
                ports[port] = (*ports.get(port, ()), _gid(match))
            elif not FRAME.fullmatch(line.strip()):
                lines.unknown(line)
    lines.require_known("expected a row `DEV PORT INDEX GID IPv4 VER DEV`")
    return GidTables(ports=ports, not_understood=lines.not_understood)


def _gid(match: re.Match[str]) -> Gid:
    return Gid(index=integer(match[3]), gid=gid_text(match[4]), type=gid_type(match[5] or ""), netdev=match[6] or None)


PROBE = Probe(
    name="show_gids",
    title="GID tables of RDMA ports (OFED's show_gids)",
    command="show_gids",
    parse=parse,
    facts=GidTables,
    tool="show_gids",
    package="mlnx-tools",
)
