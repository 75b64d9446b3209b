"""nccl-tests: NCCL's collectives between the GPUs of one node, from its JSON or its table.

Across nodes it needs MPI, and ranks that never connected to each other still print plausible numbers; railbed's own
collective benchmark covers that.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.bench.tool import Tool, ToolCall, ToolResult, ToolTest, ToolValue
from railbed.errors import ParseError
from railbed.parsing.text import Fields, integer, json_value, number

HEADING = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw")
SMALLEST = 8
LARGEST = 128 * 2**20


def parse(text: str) -> ToolResult:
    """Parse the output of rank 0; a wrong result is not a measurement."""
    return _json(text) if text.lstrip().startswith("{") else _table(text)


def _json(text: str) -> ToolResult:
    report = Fields(json_value(text))
    values: list[ToolValue] = []
    for result in report.subs("results"):
        side = result.sub("out_of_place")
        if side is None:
            raise ParseError("a result without out_of_place", line=text.strip()[:80])
        times = dict(side.items())
        row = {
            name: str(times.get(key, "")) for name, key in (("time", "time"), ("algbw", "alg_bw"), ("busbw", "bus_bw"))
        }
        values += _values(result.integer("size"), row, str(times.get("nwrong", 0)))
    if not values:
        raise ParseError("nccl-tests measured nothing", line=text.strip()[:80])
    version = report.get("nccl_version")
    return ToolResult(values=tuple(values), version=f"NCCL {version}" if isinstance(version, str | int) else None)


def _table(text: str) -> ToolResult:
    values: list[ToolValue] = []
    in_table = False
    for line in text.splitlines():
        cells = line.lstrip("#").split()
        if line.startswith("#"):
            in_table = in_table or tuple(cells[: len(HEADING)]) == HEADING
        elif in_table and cells:
            if len(cells) < len(HEADING) + 1:
                raise ParseError("a truncated result", line=line)
            row = dict(zip(HEADING, cells, strict=False))
            values += _values(integer(row["size"]), row, cells[len(HEADING)])
    if not values:
        raise ParseError("no nccl-tests table", line=text.strip()[-80:])
    return ToolResult(values=tuple(values))


def _values(size: int, row: dict[str, str], wrong: str) -> Iterator[ToolValue]:
    if wrong not in ("0", "N/A", "None"):
        raise ParseError(f"NCCL computed {wrong} wrong values at {size} bytes")
    labels = {"size": size}
    yield ToolValue(name="collective_time", value=number(row["time"]), unit="us", labels=labels)
    yield ToolValue(name="algorithm_bandwidth", value=number(row["algbw"]), unit="GB/s", labels=labels)
    yield ToolValue(name="bus_bandwidth", value=number(row["busbw"]), unit="GB/s", labels=labels)


def client(call: ToolCall) -> str:
    """Return the command that uses all GPUs of the node."""
    smallest, largest = (call.settings.size,) * 2 if call.settings.size else (SMALLEST, LARGEST)
    gpus = "$(nvidia-smi -L 2>/dev/null | grep -c ^GPU)"
    return f"{TESTS[call.test].program} -b {smallest} -e {largest} -f 4 -g {gpus}"


TESTS = {
    f"nccl_{name}": ToolTest(title=f"NCCL {title} inside a node", program=f"{name}_perf")
    for name, title in (
        ("all_reduce", "all-reduce"),
        ("all_gather", "all-gather"),
        ("reduce_scatter", "reduce-scatter"),
        ("broadcast", "broadcast"),
        ("alltoall", "all-to-all"),
    )
}

TOOL = Tool(
    name="nccl_tests",
    title="NCCL inside a node",
    package="nccl-tests",
    tests=TESTS,
    client=client,
    parse=parse,
    scope="node",
    overhead=20.0,
)
