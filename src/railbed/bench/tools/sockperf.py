"""sockperf: TCP and UDP ping-pong. It reports half a round trip, as perftest does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from railbed.bench.tool import Listens, Tool, ToolCall, ToolResult, ToolTest, ToolValue
from railbed.errors import ParseError
from railbed.parsing.text import number

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
VERSION = re.compile(r"== version #(\S+)")
MEAN = re.compile(r"Summary: (?P<what>Latency|Round trip) is (?P<value>\S+) usec")
OBSERVATION = re.compile(r"---> (?:<(?P<end>MIN|MAX)> observation|percentile (?P<percent>[\d.]+)) =\s*(?P<value>\S+)")
ROUND_TRIP = re.compile(r"avg-rtt=|Round trip is")
ERROR = re.compile(r"ERROR: (?P<message>.+)")
SIZE = re.compile(r"--msg-size=(\d{1,9})")
LOST = re.compile(r"# dropped messages = (\d{1,12})")


def parse(text: str) -> ToolResult:
    """Parse the summary and the percentiles; ignore colours."""
    text = COLOUR.sub("", text)
    mean = MEAN.search(text)
    if not mean:
        if error := ERROR.search(text):
            raise ParseError(f"sockperf: {error['message'].strip()}")
        raise ParseError("no sockperf summary", line=text.strip()[-80:])
    name = "round_trip" if ROUND_TRIP.search(text) else "half_round_trip"
    version, lost = VERSION.search(text), LOST.search(text)
    values = [
        ToolValue(name=name, value=number(mean["value"]), unit="us", labels={"stat": "mean"}),
        *_observations(text, name),
    ]
    if len(values) == 1:
        raise ParseError("sockperf's percentiles are missing", line=mean[0])
    if lost:
        values.append(ToolValue(name="lost_messages", value=number(lost[1]), unit="1"))
    return ToolResult(values=tuple(values), version=f"sockperf {version[1]}" if version else None)


def _observations(text: str, name: str) -> Iterator[ToolValue]:
    for match in OBSERVATION.finditer(text):
        stat = match["end"].lower() if match["end"] else f"p{number(match['percent']):g}"
        yield ToolValue(name=name, value=number(match["value"]), unit="us", labels={"stat": stat})


def listens(test: str) -> Listens:
    """Return the protocol that a test's server listens on."""
    return "tcp" if test == "sockperf_tcp" else "udp"


def server(call: ToolCall) -> str:
    """Return the server command; it runs until it is killed."""
    return f"sockperf sr{_tcp(call)} -i {call.server.address} -p {call.port}"


def client(call: ToolCall) -> str:
    """Return the client command."""
    settings = call.settings
    size = max(14, settings.size or TESTS[call.test].size or 0)  # its own header takes 14 bytes
    where = f"-i {call.server.address} -p {call.port} --client_ip {call.client.address}"
    return f"sockperf pp{_tcp(call)} {where} -t {max(1, round(settings.seconds))} -m {size}"


def _tcp(call: ToolCall) -> str:
    return " --tcp" if listens(call.test) == "tcp" else ""


TESTS = {
    "sockperf_tcp": ToolTest(title="TCP, half a round trip", program="sockperf", size=14),
    "sockperf_udp": ToolTest(title="UDP, half a round trip", program="sockperf", size=14),
}

TOOL = Tool(
    name="sockperf",
    title="TCP and UDP latency",
    package="sockperf",
    tests=TESTS,
    client=client,
    server=server,
    parse=parse,
    listens=listens,
    ends_itself=False,
    overhead=1.5,
)
