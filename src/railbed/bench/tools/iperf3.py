"""iperf3: TCP bandwidth with one or many streams, from its JSON or its text.

The receiver's count is the bandwidth: the sender also counts data that is still in its buffers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from railbed.bench.tool import Tool, ToolCall, ToolResult, ToolTest, ToolValue
from railbed.errors import ParseError
from railbed.parsing.text import Fields, json_value, number

LINE = re.compile(
    r"^\[(?P<id>SUM|\s*\d+)\](?:\[(?P<role>[TR]X-[CS])\])?\s+[\d.]+-[\d.]+\s+sec\s+\S+ \w+\s+(?P<rate>[\d.]+) "
    r"(?P<unit>[KMGT]?)bits/sec(?:\s+(?P<retries>\d+))?\s+(?P<side>sender|receiver)\s*$",
    re.MULTILINE,
)
VERSION = re.compile(r"^iperf (3\.\S+)", re.MULTILINE)
ERROR = re.compile(r"^iperf3: (?:error - )?(?P<message>.+)$", re.MULTILINE)
PREFIXES = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}


def parse(text: str) -> ToolResult:
    """Parse the output of the client."""
    return _json(text) if text.lstrip().startswith("{") else _text(text)


def _json(text: str) -> ToolResult:
    report = Fields(json_value(text))
    if error := report.optional_text("error"):
        raise ParseError(f"iperf3: {error}")
    start, end = report.sub("start"), report.sub("end")
    if start is None or end is None:
        raise ParseError("no iperf3 report", line=text.strip()[:80])
    values = list(_sums(end, "", "forward"))
    if not values:
        raise ParseError("iperf3 reports no sum", line=str(dict(end.items()))[:80])
    values += _sums(end, "_bidir_reverse", "backward")
    return ToolResult(values=tuple(values), version=start.optional_text("version"))


def _sums(end: Fields, suffix: str, direction: str) -> Iterator[ToolValue]:
    received, sent = end.sub(f"sum_received{suffix}"), end.sub(f"sum_sent{suffix}")
    if received is None or sent is None:
        return
    labels = {"direction": direction} if suffix or "sum_received_bidir_reverse" in end else {}
    gigabits = received.number("bits_per_second") * 1e-9
    if gigabits <= 0:
        raise ParseError("iperf3 moved nothing")
    yield ToolValue(name="bandwidth", value=gigabits, unit="Gb/s", labels=labels)
    if sent.optional_integer("retransmits") is not None:
        yield ToolValue(name="retransmits", value=sent.integer("retransmits"), unit="1", labels=labels)


def _text(text: str) -> ToolResult:
    lines = list(LINE.finditer(text))
    if not lines:
        if error := ERROR.search(text):
            raise ParseError(f"iperf3: {error['message'].strip()}")
        raise ParseError("no iperf3 report", line=text.strip()[-80:])
    sums = [match for match in lines if match["id"] == "SUM"] or lines
    roles = {match["role"] for match in sums}
    version = VERSION.search(text)
    values = []
    for match in sums:
        labels = {"direction": _direction(match)} if len(roles) > 1 else {}
        if match["side"] == "receiver":
            gigabits = number(match["rate"]) * PREFIXES[match["unit"]]
            values.append(ToolValue(name="bandwidth", value=gigabits, unit="Gb/s", labels=labels))
        elif match["retries"]:
            values.append(ToolValue(name="retransmits", value=number(match["retries"]), unit="1", labels=labels))
    if not any(value.name == "bandwidth" for value in values):
        raise ParseError("iperf3 reports no receiver", line=lines[-1][0])
    return ToolResult(values=tuple(values), version=version[0] if version else None)


def _direction(match: re.Match[str]) -> str:
    if match["role"] is None:
        raise ParseError("iperf3 reports both directions, but a line without one", line=match[0])
    return "forward" if match["role"].startswith("T") else "backward"


def server(call: ToolCall) -> str:
    """Return the server command; it exits after one client."""
    return f"iperf3 -s -1 -p {call.port} -B {call.server.address} --forceflush"


def client(call: ToolCall) -> str:
    """Return the client command; its source address keeps the traffic on its rail."""
    settings = call.settings
    parts = [f"iperf3 -c {call.server.address} -B {call.client.address} -p {call.port} -J"]
    parts.append(f"-t {max(1, round(settings.seconds))} -P {settings.streams}")
    if settings.size:
        parts.append(f"-l {settings.size}")
    if settings.both:
        parts.append("--bidir")
    if settings.traffic_class is not None:
        parts.append(f"-S {settings.traffic_class}")
    return " ".join(parts)


TOOL = Tool(
    name="iperf3",
    title="TCP bandwidth",
    package="iperf3",
    tests={"iperf3": ToolTest(title="TCP, bandwidth", program="iperf3")},
    client=client,
    server=server,
    parse=parse,
)
