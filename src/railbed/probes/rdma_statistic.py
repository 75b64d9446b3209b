"""Counters of RDMA ports through netlink, optional ones included (`rdma -j statistic`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.ports import IF_THERE_IS_RDMA
from railbed.parsing.text import Fields, integer, json_list, records

LINK = re.compile(r"(?:^|\n)link\s+([^\s/]+/\d{1,3})(?=\s|$)", re.ASCII)
COUNTER = re.compile(r"\s*([A-Za-z]\S*(?: [A-Za-z]\S*)*)\s+(\d{1,20})(?=\s|$)", re.ASCII)
"""Name and value; some drivers have names of several words (`RNR sent`)."""
NOT_COUNTERS = frozenset({"ifindex", "ifname", "port"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaStatistics:
    """Counters of all RDMA ports, by `device/port` and name."""

    links: dict[str, dict[str, int]]


def parse(text: str) -> RdmaStatistics:
    """Read `rdma statistic` as JSON or text (on one line, or one counter per line); no output means no devices."""
    if text.lstrip().startswith("["):
        return RdmaStatistics(links=dict(_from_json(fields) for fields in records(json_list(text))))
    return RdmaStatistics(links=_from_text(text.replace("\\", " ").strip()))


def _from_json(fields: Fields) -> tuple[str, dict[str, int]]:
    counters = {name: fields.integer(name) for name, _ in fields.items() if name not in NOT_COUNTERS}
    return f"{fields.text('ifname').partition('/')[0]}/{fields.integer('port')}", counters


def _from_text(text: str) -> dict[str, dict[str, int]]:
    headers = list(LINK.finditer(text))
    if text and (not headers or headers[0].start() != 0):
        raise ParseError("expected `link DEVICE/PORT …`", line=text.split("\n", 1)[0])
    return {
        header.group(1): _counters(text[header.end() : following.start() if following else len(text)])
        for header, following in zip(headers, [*headers[1:], None], strict=False)
    }


def _counters(text: str) -> dict[str, int]:
    counters: dict[str, int] = {}
    at = 0
    while text[at:].strip():
        match = COUNTER.match(text, at)
        if not match:
            raise ParseError("expected a counter and its value", line=text[at:].strip()[:80])
        counters[match.group(1)] = integer(match.group(2))
        at = match.end()
    return counters


PROBE = Probe(
    name="rdma_statistic",
    title="counters of RDMA ports, through netlink",
    command=IF_THERE_IS_RDMA + "rdma -j statistic show",
    parse=parse,
    facts=RdmaStatistics,
    tool="rdma",
    package="iproute2",
    twice=True,
    one_line=True,
)
