"""Traffic classes of every interface: bandwidth, scheduler, priorities (`dcb -j ets show`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing import dcb
from railbed.parsing.dcb import Words
from railbed.parsing.lines import Lines, TextFacts

KEYWORDS = (
    *("willing", "ets-cap", "cbs", "tc-bw", "pg-bw", "tc-tsa", "prio-tc"),
    *("reco-tc-bw", "reco-tc-tsa", "reco-prio-tc"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ets:
    """Traffic classes of one interface; rows run from 0 to 7."""

    prio_tc: tuple[int, ...]
    """Traffic class of each priority."""
    tc_tsa: tuple[str, ...]
    """`strict`, `ets`, `cbs` or `vendor`, by traffic class."""
    tc_bw: tuple[int, ...]
    """Share of the bandwidth of each `ets` class, in percent."""
    ets_cap: int | None = None
    willing: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DcbEts(TextFacts):
    """Traffic classes by interface; the saved output of a single interface is under the empty name."""

    interfaces: dict[str, Ets]
    refused: dict[str, str]
    """The kernel's error message for interfaces that do not support it."""


def parse(text: str) -> DcbEts:
    """Read the sections of all interfaces, or the JSON or text of one."""
    lines = Lines(text)
    interfaces, refused = dcb.read_interfaces(lines, KEYWORDS)
    return DcbEts(
        interfaces={name: _ets(words) for name, words in interfaces.items()},
        refused=refused,
        not_understood=lines.not_understood,
    )


def _ets(words: Words) -> Ets:
    prio_tc, tc_tsa, tc_bw = words.numbers("prio-tc"), words.texts("tc-tsa"), words.numbers("tc-bw")
    if prio_tc is None or tc_tsa is None or tc_bw is None:
        raise ParseError("no prio-tc, tc-tsa or tc-bw")
    return Ets(
        prio_tc=prio_tc,
        tc_tsa=tc_tsa,
        tc_bw=tc_bw,
        ets_cap=words.number("ets-cap"),
        willing=words.switch("willing"),
    )


PROBE = Probe(
    name="dcb_ets",
    title="traffic classes of interfaces",
    command=dcb.command("ets"),
    parse=parse,
    facts=DcbEts,
    tool="dcb",
    package="iproute2",
    one_line=True,
)
