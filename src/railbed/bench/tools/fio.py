"""fio: disk reads and writes, through a file in a folder; never on a device.

The file is unlinked before fio starts, so nothing is left behind, even after a power cut. It is first
filled with data that does not compress, since reading holes and zeros says nothing about a disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.bench.tool import Tool, ToolCall, ToolResult, ToolTest, ToolValue
from railbed.errors import ParseError
from railbed.parsing.text import Fields, json_value, quote_path

MODES = {"fio_read": "read", "fio_write": "write", "fio_randread": "randread", "fio_randwrite": "randwrite"}
BLOCK = 4 * 2**20
SEQUENTIAL, RANDOM = 2**20, 4096
STATS = {"50.000000": "p50", "99.000000": "p99", "99.900000": "p99.9"}


def parse(text: str) -> ToolResult:
    """Parse `--output-format=json`; skip anything that fio prints before the JSON."""
    report = Fields(json_value(text[text.find("{") :] if "{" in text else text))
    values = [value for job in report.subs("jobs") for value in _job(job)]
    if not values:
        raise ParseError("fio measured nothing", line=text.strip()[:80])
    return ToolResult(values=tuple(values), version=report.optional_text("fio version"))


def _job(job: Fields) -> Iterator[ToolValue]:
    if job.optional_integer("error"):
        raise ParseError(f"fio: error {job.integer('error')} in {job.optional_text('jobname') or 'its job'}")
    options = job.sub("job options")
    direct = int((options.optional_text("direct") if options else None) == "1")
    for direction in ("read", "write"):
        side = job.sub(direction)
        if side is None or not side.number("total_ios"):
            continue
        labels = {"operation": direction, "direct": direct}
        # Old versions report kibibytes and microseconds.
        rate = side.number("bw_bytes") if "bw_bytes" in side else side.number("bw") * 1024
        yield ToolValue(name="disk_bandwidth", value=rate * 1e-9, unit="GB/s", labels=labels)
        yield ToolValue(name="disk_operations", value=side.number("iops"), unit="1/s", labels=labels)
        nanoseconds = side.sub("clat_ns")
        yield from _latencies(nanoseconds or side.sub("clat"), 1e-3 if nanoseconds else 1.0, labels)


def _latencies(clat: Fields | None, scale: float, labels: dict[str, str | int]) -> Iterator[ToolValue]:
    if clat is None:
        return
    values = {stat: clat.number(stat) for stat in ("min", "mean", "max")}
    percentiles = clat.sub("percentile")
    if percentiles:
        values |= {stat: percentiles.number(key) for key, stat in STATS.items() if key in percentiles}
    for stat, value in values.items():
        yield ToolValue(name="disk_latency", value=value * scale, unit="us", labels={**labels, "stat": stat})


def client(call: ToolCall) -> str:
    """Return a script that fills an unlinked file and runs fio on it, bypassing the cache if the disk supports it."""
    settings = call.settings
    size = settings.size or TESTS[call.test].size
    blocks = max(2, settings.file_bytes // BLOCK)
    options = (
        f"--name={call.test} --filename=/proc/self/fd/9 --rw={MODES[call.test]} --bs={size} --size={blocks * BLOCK} "
        f"--runtime={settings.seconds:g} --time_based --ioengine=psync --group_reporting --output-format=json"
    )
    return f"""{{
dir={quote_path(settings.path or "~")}
[ -d "$dir" ] || {{ echo "$dir is not a folder" >&2; exit 2; }}
file=$(umask 077; mktemp "$dir/.railbed-bench.XXXXXX") && exec 9<>"$file" && rm -f "$file" || exit
head -c {BLOCK} /dev/urandom >&9 || exit
left={blocks - 1}
while [ $left -gt 0 ]; do
  dd if=/proc/self/fd/9 bs={BLOCK} count=1 status=none >&9 || exit
  left=$((left - 1))
done
sync /proc/self/fd/9 2>/dev/null || sync
out=$(fio {options} --direct=1 2>&1) || out=$(fio {options} --direct=0)
code=$?
printf '%s\\n' "$out"
( exit $code )
}}"""


def _test(title: str, size: int) -> ToolTest:
    return ToolTest(title=title, program="fio", size=size)


TESTS = {
    "fio_read": _test("disk, sequential reads", SEQUENTIAL),
    "fio_write": _test("disk, sequential writes", SEQUENTIAL),
    "fio_randread": _test("disk, random reads", RANDOM),
    "fio_randwrite": _test("disk, random writes", RANDOM),
}

TOOL = Tool(
    name="fio",
    title="disks",
    package="fio",
    tests=TESTS,
    client=client,
    parse=parse,
    scope="node",
    overhead=3.0,
)
