"""RDMA links: state and network interface of every RDMA port (`rdma -j link`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import IF_THERE_IS_RDMA
from railbed.parsing.text import Fields, integer, json_list, records

LINE = re.compile(r"(?:link|\d+/\d+:)\s+([^\s/]+)/(\d{1,3}):?(?:\s+(.*))?", re.ASCII)
"""`link mlx5_0/1 state ACTIVE …`, or `1/1: mlx5_0/1: state ACTIVE …` up to iproute2 5.5."""
KEYS = {"subnet_prefix", "lid", "sm_lid", "lmc", "state", "physical_state", "netdev", "netdev_index"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaLink:
    """One port of an RDMA device."""

    device: str
    port: int
    state: str | None = None
    """`ACTIVE`, `DOWN`, `INIT`, `ARMED`."""
    physical_state: str | None = None
    """`LINK_UP`, `DISABLED`, `POLLING`, …"""
    netdev: str | None = None
    """Network interface on the same port; an InfiniBand port has none here."""
    lid: int | None = None
    sm_lid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaLinks(TextFacts):
    """All RDMA ports of a machine, by `device/port`."""

    links: dict[str, RdmaLink]

    def of_netdev(self, netdev: str) -> RdmaLink | None:
        """Return the RDMA port that a network interface belongs to."""
        return next((link for link in self.links.values() if link.netdev == netdev), None)


def parse(text: str) -> RdmaLinks:
    """Read `rdma link` as JSON or text; no output means no devices."""
    lines = Lines(text)
    links: list[RdmaLink] = []
    if lines.json:
        links += (_from_json(fields) for fields in records(json_list(lines.json)))
    else:
        for line in lines:
            with lines.reading(line):
                links += () if _is_detail(line) else (_from_line(line),)
    lines.require_known("expected `link DEVICE/PORT …`")
    return RdmaLinks(links={f"{link.device}/{link.port}": link for link in links}, not_understood=lines.not_understood)


def _from_json(fields: Fields) -> RdmaLink:
    return RdmaLink(
        # iproute2 up to 5.5 writes `mlx5_0/1` here.
        device=fields.text("ifname").partition("/")[0],
        port=fields.integer("port"),
        state=fields.optional_text("state"),
        physical_state=fields.optional_text("physical_state"),
        netdev=fields.optional_text("netdev"),
        lid=fields.optional_integer("lid"),
        sm_lid=fields.optional_integer("sm_lid"),
    )


def _from_line(line: str) -> RdmaLink:
    match = LINE.fullmatch(line.strip())
    if not match:
        raise ParseError("expected `link DEVICE/PORT …`", line=line)
    words = (match.group(3) or "").split()
    values = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or not values.keys() & KEYS:
        raise ParseError("expected pairs of name and value", line=line)
    return RdmaLink(
        device=match.group(1),
        port=integer(match.group(2)),
        state=values.get("state"),
        physical_state=values.get("physical_state"),
        netdev=values.get("netdev"),
        lid=integer(values["lid"]) if "lid" in values else None,
        sm_lid=integer(values["sm_lid"]) if "sm_lid" in values else None,
    )


def _is_detail(line: str) -> bool:
    """`rdma -d` adds a second line with the capabilities."""
    return line.lstrip().startswith("caps: <")


PROBE = Probe(
    name="rdma_link",
    title="RDMA links: state and network interface",
    command=IF_THERE_IS_RDMA + "rdma -j link show",
    parse=parse,
    facts=RdmaLinks,
    tool="rdma",
    package="iproute2",
    one_line=True,
)
