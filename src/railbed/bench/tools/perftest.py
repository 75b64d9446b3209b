"""perftest: RDMA bandwidth and latency (`ib_write_bw`, `ib_read_lat`, …), from its text or its JSON.

Latencies are half a round trip, except for reads, which take a full one: the two have different names here.
Percentiles come from the individual samples (`-U`); `t_stdev` is ignored, since perftest computes it with integers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from shlex import quote

from railbed.bench.tool import End, Tool, ToolCall, ToolResult, ToolTest, ToolValue
from railbed.errors import ParseError
from railbed.model.statistics import distribution
from railbed.parsing.text import number

BANDWIDTH_SIZE, LATENCY_SIZE = 65536, 2
TITLE = re.compile(r"(?:Bidirectional )?(?:BW|Latency)[ _]Test\b")
BEFORE_TITLE = re.compile(r"\s*+(?:\"?test\"?\s*+:\s*+\"?)?(?P<verb>[\w ]+)[ _]")
COLUMN = re.compile(
    r"#bytes|#iterations|(?:BW peak|BW average|MsgRate|CPU_Util|t_min|t_max|t_typical|t_avg|t_stdev"
    r"|99% percentile|99\.9% percentile)\s?\[[^\[\]]*+\]|tps average"
)
SAMPLE = re.compile(r"^\d+, (\S+)$", re.MULTILINE)
FIELD = re.compile(r"\"?(?P<key>[\w.]+)\"?\s*+:\s*+\"?(?P<value>[^\",{}]*)\"?\s*+,?")
GIGABITS = {"Gb/sec": 1.0, "MB/sec": 2**20 * 8e-9, "MiB/sec": 2**20 * 8e-9}
"""Older versions write MB but mean MiB."""
CLOCK = "Correlation coefficient"
PATIENT = 20
"""Waits 4.3 s for an acknowledgement instead of 67 ms: Soft-RoCE on a busy processor needs that, or it gives up."""
STATS = {
    "t_min": "min",
    "t_max": "max",
    "t_typical": "p50",
    "t_avg": "mean",
    "99% percentile": "p99",
    "99.9% percentile": "p99.9",
    "percentile_99": "p99",
    "percentile_99.9": "p99.9",
}


def parse(text: str) -> ToolResult:
    """Parse the tables and samples of one test, or its JSON, which some versions write incorrectly."""
    test = _test(text).lower()
    full = "read" in test or "atomic" in test
    latency = "round_trip" if full else "half_round_trip"
    rows = list(_rows(text)) or list(_json_rows(text))
    if not rows:
        raise ParseError("perftest printed no result", line=text.strip().splitlines()[-1])
    samples = tuple(number(sample) for sample in SAMPLE.findall(text))
    values = [value for row in rows for value in _values(row, latency, text)]
    if samples:
        size = int(number(rows[-1]["#bytes"]))
        values = [_latency(latency, stat, value, size) for stat, value in distribution(samples).items()]
    return ToolResult(values=tuple(values), samples=samples)


def _test(text: str) -> str:
    """Return the words before `BW Test` or `Latency Test` in the first title."""
    for line in text.splitlines():
        title = TITLE.search(line)
        before = BEFORE_TITLE.fullmatch(line[: title.start()]) if title else None
        if before:
            return before["verb"]
    raise ParseError("no perftest title", line=text.strip().splitlines()[-1] if text.strip() else "")


def _rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows under each heading; a row with fewer values than the heading is truncated."""
    columns: list[str] = []
    for line in text.splitlines():
        if "#bytes" in line:
            columns = COLUMN.findall(line)
        elif columns and re.match(r"\s*+\d++\s++\d++\s", line):
            cells = line.partition(CLOCK)[0].split()
            if len(cells) != len(columns):
                raise ParseError("a truncated result", line=line)
            yield dict(zip(columns, cells, strict=True))


def _json_rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the result of `--out_json`: one key and value per line, with or without quotes."""
    matches = [FIELD.fullmatch(line.strip()) for line in text.splitlines()]
    fields = {match["key"]: match["value"].strip() for match in matches if match}
    if "MsgSize" not in fields:
        return
    if "BW_average" in fields:
        raise ParseError("perftest's JSON has no unit for the bandwidth; its text output does")
    yield {
        "#bytes": fields["MsgSize"],
        **{f"{key}[usec]": value for key, value in fields.items() if key in STATS},
    }


def _values(row: Mapping[str, str], latency: str, text: str) -> Iterator[ToolValue]:
    size = int(number(row["#bytes"]))
    for column, cell in row.items():
        name, _, unit = column.partition("[")
        value = number(cell)
        match name.strip():
            case "BW average":
                if value <= 0:
                    reason = "perftest could not measure its clock" if CLOCK in text else "perftest measured nothing"
                    raise ParseError(reason, line=" ".join(row.values()))
                yield ToolValue(name="bandwidth", value=value * _gigabits(unit), unit="Gb/s", labels={"size": size})
            case "BW peak" if value > 0:
                yield ToolValue(
                    name="bandwidth_peak", value=value * _gigabits(unit), unit="Gb/s", labels={"size": size}
                )
            case "MsgRate":
                yield ToolValue(name="message_rate", value=value * 1e6, unit="1/s", labels={"size": size})
            case stat if stat in STATS:
                yield _latency(latency, STATS[stat], value, size)


def _gigabits(unit: str) -> float:
    unit = unit.rstrip("]")
    if unit not in GIGABITS:
        raise ParseError("unknown unit of bandwidth", line=unit)
    return GIGABITS[unit]


def _latency(name: str, stat: str, value: float, size: int) -> ToolValue:
    return ToolValue(name=name, value=value, unit="us", labels={"stat": stat, "size": size})


def server(call: ToolCall) -> str:
    """Return the server command; it exits after one client."""
    return " ".join([call.test, *_options(call, call.server)])


def client(call: ToolCall) -> str:
    """Return the client command."""
    return " ".join([call.test, *_options(call, call.client), call.server.address])


def _options(call: ToolCall, end: End) -> Iterator[str]:
    """Yield the options of one side; except for the device they must be the same on both."""
    settings = call.settings
    test = TESTS[call.test]
    yield f"-d {quote(end.rdma or '')} -i {end.rdma_port} -p {call.port} -F -s {settings.size or test.size}"
    if end.gid_index is not None:
        yield f"-x {end.gid_index}"
    if call.client.soft or call.server.soft:
        yield f"-u {PATIENT}"
    if settings.traffic_class is not None:
        yield f"--tclass={settings.traffic_class}"
    if test.latency:
        yield f"-n {max(5, settings.samples)} -U"
    else:
        yield f"-D {max(1, round(settings.seconds))} --report_gbits"
        if settings.streams > 1:
            yield f"-q {settings.streams}"
        if settings.both:
            yield "-b"
    if settings.memory == "gpu":
        yield f"--use_cuda={end.gpu}"


def _bandwidth(verb: str, *, pulls: bool = False) -> ToolTest:
    program = f"ib_{verb}_bw"
    return ToolTest(title=f"RDMA {verb}, bandwidth", program=program, size=BANDWIDTH_SIZE, rdma=True, pulls=pulls)


def _latency_test(verb: str, trip: str) -> ToolTest:
    program = f"ib_{verb}_lat"
    return ToolTest(title=f"RDMA {verb}, {trip}", program=program, size=LATENCY_SIZE, rdma=True, latency=True)


TESTS = {
    "ib_write_bw": _bandwidth("write"),
    "ib_read_bw": _bandwidth("read", pulls=True),
    "ib_send_bw": _bandwidth("send"),
    "ib_write_lat": _latency_test("write", "half a round trip"),
    "ib_send_lat": _latency_test("send", "half a round trip"),
    "ib_read_lat": _latency_test("read", "a full round trip"),
}

TOOL = Tool(
    name="perftest",
    title="RDMA bandwidth and latency",
    package="perftest",
    tests=TESTS,
    client=client,
    server=server,
    parse=parse,
    version=lambda test: f"{test} --version",
)
