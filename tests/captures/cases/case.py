"""The form of a case, and what most cases are built from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.context import Context, KnownPort
from railbed.capture.analysis.results import Analysis
from railbed.capture.book import CAPTURE_BOOK
from railbed.capture.packets import Recording
from railbed.model.record import WRONG, Finding
from railbed.rules.engine import judge
from tests.captures.exchange import port
from tests.captures.flows import Flow, in_order
from tests.captures.truth import Packet, recorded

FIRST, SECOND, THIRD = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def place(number: int, **known: Any) -> KnownPort:
    """Return the port of a node on rail0, at 10 Gb/s."""
    return replace(KnownPort(node=f"node{number}", port="ens1", rail="rail0", speed=10.0, mtu=9000), **known)


CONTEXT = Context(
    places={f"10.0.0.{number}": place(number) for number in range(1, 9)},
    dscp=26,
    ecn=True,
    priority=3,
    cnp_dscp=48,
    cnp_priority=6,
)
NO_CONTEXT = Context()
UNKNOWN_CARDS = replace(CONTEXT, places={address: replace(it, software=None) for address, it in CONTEXT.places.items()})
SOFTWARE = replace(CONTEXT, places={address: replace(it, software=True) for address, it in CONTEXT.places.items()})


@dataclass
class Case:
    """Recordings, and the verdicts of one rule about them."""

    rule: str
    name: str
    recordings: Callable[[], Sequence[Recording]]
    expected: tuple[tuple[str, str, str], ...]
    """Verdict, subject, and the observation, or its beginning followed by `…`."""
    context: Context = CONTEXT

    @cached_property
    def analysis(self) -> Analysis:
        """Return what the recordings show."""
        return analyse(self.recordings(), self.context)

    def findings(self) -> list[Finding]:
        """Return what the rule says: what is wrong, or else the rest."""
        findings = list(judge(CAPTURE_BOOK, self.analysis, [CAPTURE_BOOK.rules[self.rule]]))
        return [finding for finding in findings if finding.verdict in WRONG] or findings

    def shown(self) -> tuple[tuple[str, str, str], ...]:
        """Return the verdicts in the form of `expected`."""
        shown = []
        for place, finding in enumerate(self.findings()):
            wanted = self.expected[place][2] if place < len(self.expected) else ""
            begins = wanted.endswith("…") and finding.observed.startswith(wanted[:-1])
            shown.append((str(finding.verdict), finding.subject, wanted if begins else finding.observed))
        return tuple(shown)


def ok(observed: str) -> tuple[tuple[str, str, str], ...]:
    """Expect that nothing is wrong."""
    return (("ok", "cluster", observed),)


def skipped(observed: str) -> tuple[tuple[str, str, str], ...]:
    """Expect that the rule cannot judge."""
    return (("skipped", "cluster", observed),)


def wrong(verdict: str, subject: str, observed: str) -> tuple[tuple[str, str, str], ...]:
    """Expect one verdict about something that is wrong."""
    return ((verdict, subject, observed),)


def stream(count: int, flow: Flow | None = None, **known: Any) -> list[Packet]:
    """Return messages of one packet each, every tenth acknowledged, and the last."""
    flow = flow or Flow()
    packets: list[Packet] = []
    for number in range(count):
        packets += flow.send(1000, **known)
        if number % 10 == 9 or number == count - 1:
            packets.append(flow.ack())
    return in_order(packets)


def at(number: int, *groups: Iterable[Packet], **known: Any) -> Recording:
    """Return what the port of a node records."""
    packets = in_order([packet for group in groups for packet in group])
    return port(packets, f"10.0.0.{number}", f"node{number}", **known)


def between(*groups: Iterable[Packet], **known: Any) -> Recording:
    """Return what a mirror port records."""
    return recorded(in_order([packet for group in groups for packet in group]), name="mirror.pcap", **known)
