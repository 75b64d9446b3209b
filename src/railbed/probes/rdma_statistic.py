"""Counters of RDMA ports through netlink, optional ones included (`rdma -j statistic`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import IF_THERE_IS_RDMA
from railbed.parsing.text import Fields, integer, json_list, records

LINK = re.compile(r"link\s+([^\s/]+/\d{1,3})(?=\s|$)", re.ASCII)
OPTIONAL = re.compile(r"Optional-set:\s*")
MOST_WORDS = 2
"""Some drivers have names of several words (`RNR sent`); a name may be in the line before its value."""
VALUE = re.compile(r"\d{1,20}", re.ASCII)
NOT_COUNTERS = frozenset({"ifindex", "ifname", "port"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaStatistics(TextFacts):
    """Counters of all RDMA ports, by `device/port` and name."""

    links: dict[str, dict[str, int]]


def parse(text: str) -> RdmaStatistics:
    """Read `rdma statistic` as JSON or text (on one line, or one counter per line); no output means no devices."""
    lines = Lines(text)
    if lines.json:
        return RdmaStatistics(links=dict(_from_json(fields) for fields in records(json_list(lines.json))))
    links = _from_text(lines)
    lines.require_known("expected `link DEVICE/PORT …`")
    return RdmaStatistics(links=links, not_understood=lines.not_understood)


def _from_json(fields: Fields) -> tuple[str, dict[str, int]]:
    counters = {name: fields.integer(name) for name, _ in fields.items() if name not in NOT_COUNTERS}
    return f"{fields.text('ifname').partition('/')[0]}/{fields.integer('port')}", counters


def _from_text(lines: Lines) -> dict[str, dict[str, int]]:
    """Read the counters behind each `link DEVICE/PORT`; a name and its value may be in two lines of a mail."""
    links: dict[str, dict[str, int]] = {}
    counters: dict[str, int] | None = None
    begun: list[str] = []
    for line in lines:
        words = OPTIONAL.sub("", line.replace("\\", " ").strip())
        if link := LINK.match(words):
            counters = links.setdefault(link[1], {})
            words, begun = words[link.end() :], []
        with lines.reading(line):
            if counters is None:
                raise ParseError("expected `link DEVICE/PORT …`", line=line)
            read, begun = _counters([*begun, *words.split()])
            counters |= read
    if begun:
        lines.unknown_part(" ".join(begun))
    return links


def _counters(words: list[str]) -> tuple[dict[str, int], list[str]]:
    """Return the counters of a line, and the name that it ends with if its value is in the next line."""
    counters: dict[str, int] = {}
    name: list[str] = []
    for word in words:
        if name and VALUE.fullmatch(word):
            counters[" ".join(name)] = integer(word)
            name = []
        elif word[0].isascii() and word[0].isalpha():
            name.append(word)
        else:
            raise ParseError("expected a counter and its value", line=" ".join(words))
    if len(name) > MOST_WORDS:
        raise ParseError("expected a counter and its value", line=" ".join(words))
    return counters, name


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
