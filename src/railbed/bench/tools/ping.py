"""ping: the round trip of an ICMP packet. It is a whole one: perftest and sockperf tell half of theirs."""

from __future__ import annotations

import re

from railbed.bench.tool import Call, Reading, Test, Tool, Value
from railbed.errors import ParseError
from railbed.model.statistics import distribution
from railbed.parsing.text import number

REPLY = re.compile(r"icmp_seq=\d{1,10} .{0,80}?\btime=(?P<ms>[\d.]{1,20}) ms")
COUNTS = re.compile(r"(?P<sent>\d{1,9}) packets transmitted, (?P<received>\d{1,9}) (?:packets )?received")
SUMMARY = re.compile(r"(?:rtt|round-trip) min/avg/max(?:/mdev)? = ([\d.]+)/([\d.]+)/([\d.]+)")
UNREACHABLE = re.compile(r"^From .*?: icmp_seq=\d+ (?P<why>.+)$|^From \S+ icmp_seq=\d+ (?P<also>.+)$", re.MULTILINE)
VERSION = re.compile(r"^ping from (iputils \S+)", re.MULTILINE)
MOST = 200
"""Packets of one test: at 5 ms each, a second."""


def parse(text: str) -> Reading:
    """Read the single replies, else the summary of `ping -q`."""
    counts = COUNTS.search(text)
    if not counts:
        raise ParseError("no ping statistics", line=text.strip()[-80:])
    sent, received = int(counts["sent"]), int(counts["received"])
    if not received:
        why = UNREACHABLE.search(text)
        said = (why["why"] or why["also"]) if why else "no reply"
        raise ParseError(f"ping: {said} to {sent} packets")
    version = VERSION.search(text)
    samples = tuple(number(ms) * 1e3 for ms in REPLY.findall(text))
    told = dict(distribution(samples)) if samples else _summary(text)
    values = [Value(name="round_trip", value=value, unit="us", labels={"stat": stat}) for stat, value in told.items()]
    values.append(Value(name="lost_messages", value=max(0, sent - received), unit="1"))
    return Reading(values=tuple(values), version=version[1] if version else None, samples=samples)


def _summary(text: str) -> dict[str, float]:
    found = SUMMARY.search(text)
    if not found:
        raise ParseError("ping's summary is missing", line=text.strip()[-80:])
    return {stat: number(value) * 1e3 for stat, value in zip(("min", "mean", "max"), found.groups(), strict=True)}


def client(call: Call) -> str:
    """Return the command; the first packet also asks for the address of the card, so it goes ahead alone."""
    end = f"-I {call.client.address} {call.server.address}"
    size = f" -s {call.settings.size}" if call.settings.size else ""
    count = min(MOST, max(5, call.settings.samples))
    interval = 0.005
    return f"{{ ping -c 1 -W 2 -q {end} >/dev/null; ping -n -c {count} -i {interval} -W 2{size} {end}; }}"


TOOL = Tool(
    name="ping",
    title="ICMP round trip",
    package="iputils-ping",
    tests={"ping": Test(title="ICMP, a whole round trip", program="ping", latency=True)},
    client=client,
    parse=parse,
    version=lambda _: "ping -V",
)
