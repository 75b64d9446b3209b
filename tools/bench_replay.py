"""Measure what `railbed check` itself costs on a large cluster: a recording of many nodes, replayed.

    python -m tools.bench_replay [--nodes 64 256 1024] [--repeats 3] [--before FOLDER] [--profile FILE]

Every node has a port with RDMA on one rail, cabled to a switch for 32 nodes; every sixteenth has the faults of `vm2` in
`tests/recordings/two-roce-vms.yaml`. Prints seconds, processor time, memory and findings: the medians of the repeats,
for `--json` and for the screen. `--before` measures the sources in another folder as well, such as those of an older
commit (`git archive COMMIT src | tar -x -C FOLDER`), in turns with these. With `--profile`, one check as JSON is
profiled into a file for `pstats`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from string import Template

from pydantic_core import from_json
from tests.support.recordings import FOLDER, VARIABLES, recorded_output
from tests.support.rulecase import load_yaml

from railbed.transport.record import OutputRecorder

RECORDING = FOLDER / "two-roce-vms.yaml"
ROOT = Path(__file__).parents[1]
FIRST_ADDRESS = IPv4Address("10.250.0.1")
NODES_PER_SWITCH = 32
FAULTY = 16
"""One node in so many has faults."""
MEGABYTE = 1e6


@dataclass(frozen=True)
class Sample:
    """One check of a recording."""

    seconds: float
    processor_seconds: float
    megabytes: float
    findings: int


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--repeats", type=int, default=int(os.environ.get("REPEATS", "3")))
    parser.add_argument("--before", type=Path)
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    sources = {"before": arguments.before / "src", "now": ROOT / "src"} if arguments.before else {"now": ROOT / "src"}
    print(f"{'':>8}{'nodes':>6}{'shown as':>10}{'seconds':>10}{'processor':>11}{'memory':>10}{'findings':>10}")
    for nodes in arguments.nodes:
        with tempfile.TemporaryDirectory(prefix="railbed-bench-replay-") as name:
            folder = Path(name)
            record(folder / "recording", nodes)
            if arguments.profile:
                profiler = ["-m", "cProfile", "-o", str(arguments.profile.absolute())]
                check(folder, ["--json"], source=sources["now"], profiler=profiler)
                continue
            for shown in ("json", "text"):
                options = ["--json"] if shown == "json" else []
                turns = [
                    {which: check(folder, options, source=source) for which, source in sources.items()}
                    for _ in range(arguments.repeats)
                ]
                for which in sources:
                    print(f"{which:>8}{row(nodes, shown, [samples[which] for samples in turns])}", flush=True)


def record(folder: Path, nodes: int) -> None:
    """Write a recording of some nodes, with its cluster file."""
    recording = load_yaml(RECORDING)
    folder.mkdir()
    (folder / "cluster.yaml").write_text("".join(cluster_lines(nodes)))
    with OutputRecorder(folder) as recorder:
        for number in range(nodes):
            own = {} if (number + 1) % FAULTY else recording["nodes"]["vm2"]
            texts = {**recording["common"], **{key: text for key, text in own.items() if key not in VARIABLES}}
            for probe, printed in texts.items():
                readings = printed if isinstance(printed, list) else [printed]
                for text in readings * (3 - len(readings)):
                    recorder.store(recorded_output(f"n{number}", probe, text_of(number, nodes, text)))


def text_of(number: int, nodes: int, text: str) -> str:
    """Return what a node printed, in place of one of the two in the recording."""
    peer, address = (number + 1) % nodes, FIRST_ADDRESS + number
    packed = address.packed.hex()
    gid = f"0000:0000:0000:0000:0000:ffff:{packed[:4]}:{packed[4:]}"
    variables = {
        "name": f"n{number}",
        "address": address,
        "gid": gid,
        "peer": FIRST_ADDRESS + peer,
        "other": f"n{peer}",
    }
    switch, port = divmod(number, NODES_PER_SWITCH)
    moved = text.replace("192.168.250.0/24", "10.250.0.0/16").replace('"prefixlen":24', '"prefixlen":16')
    moved = moved.replace('"nexus"', f'"leaf{switch}"').replace('"Ethernet1/1"', f'"Ethernet1/{port + 1}"')
    return Template(moved).substitute(variables)


def cluster_lines(nodes: int) -> Iterator[str]:
    """Yield the cluster file."""
    yield "name: many\nrails: {rail0: {subnet: 10.250.0.0/16, speed: 10}}\nnodes:\n"
    for number in range(nodes):
        address = FIRST_ADDRESS + number
        port = f"{{netdev: ens192, rdma: rocep11s0, rail: rail0, address: {address}}}"
        yield f"  n{number}: {{host: {address}, ports: [{port}]}}\n"
    yield "switches:\n"
    for number in range(nodes):
        switch, place = divmod(number, NODES_PER_SWITCH)
        if place == 0:
            yield f"  leaf{switch}:\n    ports:\n"
        yield f"      - {{name: Ethernet1/{place + 1}, node: n{number}, netdev: ens192}}\n"


def check(folder: Path, options: Sequence[str], *, source: Path, profiler: Sequence[str] = ()) -> Sample:
    """Check the recording once, and return what that cost."""
    command = [sys.executable, *profiler, "-m", "railbed", "check", "--replay", str(folder / "recording"), *options]
    environment = {**os.environ, "RAILBED_RUNS": str(folder / "runs"), "PYTHONPATH": str(source.absolute())}
    with (folder / "output").open("w+b") as output:
        start = time.monotonic()
        with subprocess.Popen(command, cwd=folder, env=environment, stdout=output) as process:
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1, 3):
            sys.exit(f"{' '.join(command)} ended with {process.returncode}")
        output.seek(0)
        kinds = Counter(from_json(line)["kind"] for line in output) if options else Counter[str]()
    processor = usage.ru_utime + usage.ru_stime
    return Sample(seconds, processor, usage.ru_maxrss * 1024 / MEGABYTE, kinds["finding"])


def row(nodes: int, shown: str, samples: Sequence[Sample]) -> str:
    """Return a line of the table."""
    seconds = statistics.median(sample.seconds for sample in samples)
    processor = statistics.median(sample.processor_seconds for sample in samples)
    memory = max(sample.megabytes for sample in samples)
    findings = f"{samples[0].findings:>10,}" if samples[0].findings else ""
    return f"{nodes:>6}{shown:>10}{seconds:>8.2f} s{processor:>9.2f} s{memory:>7.0f} MB{findings}"


if __name__ == "__main__":
    main()
