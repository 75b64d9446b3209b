"""ping: the full round trip of an ICMP packet, whereas perftest and sockperf report half of one."""

from __future__ import annotations

import re

from railbed.bench.tool import Tool, ToolCall, ToolResult, ToolTest, ToolValue
from railbed.errors import ParseError
from railbed.model.statistics import distribution
from railbed.parsing.text import number

REPLY = re.compile(r"icmp_seq=\d{1,10} .{0,80}?\btime=(?P<ms>[\d.]{1,20}) ms")
COUNTS = re.compile(r"(?P<sent>\d{1,9}) packets transmitted, (?P<received>\d{1,9}) (?:packets )?received")
SUMMARY = re.compile(r"(?:rtt|round-trip) min/avg/max(?:/mdev)? = ([\d.]+)/([\d.]+)/([\d.]+)")
UNREACHABLE = re.compile(r"^From .*?: icmp_seq=\d+ (?P<reason>.+)$|^From \S+ icmp_seq=\d+ (?P<other>.+)$", re.MULTILINE)
VERSION = re.compile(r"^ping from (iputils \S+)", re.MULTILINE)
MAX_PACKETS = 200
INTERVAL = 0.005
"""Seconds from one packet to the next: all of them take one second."""


def parse(text: str) -> ToolResult:
    """Parse the individual replies, or else the summary of `ping -q`."""
    counts = COUNTS.search(text)
    if not counts:
        raise ParseError("no ping statistics", line=text.strip()[-80:])
    sent, received = int(counts["sent"]), int(counts["received"])
    if not received:
        match = UNREACHABLE.search(text)
        reason = (match["reason"] or match["other"]) if match else "no reply"
        raise ParseError(f"ping: {reason} to {sent} packets")
    version = VERSION.search(text)
    samples = tuple(number(ms) * 1e3 for ms in REPLY.findall(text))
    stats = dict(distribution(samples)) if samples else _summary(text)
    values = [
        ToolValue(name="round_trip", value=value, unit="us", labels={"stat": stat}) for stat, value in stats.items()
    ]
    values.append(ToolValue(name="lost_messages", value=max(0, sent - received), unit="1"))
    return ToolResult(values=tuple(values), version=version[1] if version else None, samples=samples)


def _summary(text: str) -> dict[str, float]:
    summary = SUMMARY.search(text)
    if not summary:
        raise ParseError("ping's summary is missing", line=text.strip()[-80:])
    return {stat: number(value) * 1e3 for stat, value in zip(("min", "mean", "max"), summary.groups(), strict=True)}


def client(call: ToolCall) -> str:
    """Return the command; one packet goes ahead, so that address resolution does not count as latency."""
    end = f"-I {call.client.address} {call.server.address}"
    size = f" -s {call.settings.size}" if call.settings.size else ""
    count = min(MAX_PACKETS, max(5, call.settings.samples))
    return f"{{ ping -c 1 -W 2 -q {end} >/dev/null; ping -n -c {count} -i {INTERVAL} -W 2{size} {end}; }}"


TOOL = Tool(
    name="ping",
    title="ICMP round trip",
    package="iputils-ping",
    tests={"ping": ToolTest(title="ICMP, a full round trip", program="ping", latency=True)},
    client=client,
    parse=parse,
    version=lambda _: "ping -V",
    interval=INTERVAL,
)
