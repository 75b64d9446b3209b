"""Test a lab with the other processor end to end: up, an RDMA write, `check`, a fault and its repair, down.

`python -m tools.soak_x86` runs it; on an x86-64 machine the nodes are aarch64. The first run builds the image, which
takes a quarter of an hour under emulation.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RAILBED = str(Path(sys.executable).parent / "railbed")
NAME = f"soak-{platform.node()[:8]}-{int(time.time()) % 10000}"
OTHER = {"aarch64": "x86_64", "x86_64": "aarch64"}
RULES = ("reachable", "rdma_device", "rdma_port_active", "gid_rocev2", "link_up", "mtu", "mtu_path", "rdma_mtu")
PERFTEST = "timeout 300 ib_write_bw -d rxe0 -x 1 -F -u 20 -n 100"
WRITTEN = re.compile(r"^ 65536 +100 +\S+ +(\S+)", re.MULTILINE)
SECONDS = 3600


def main() -> None:
    """Run every step, and stop at the first that fails."""
    arch = OTHER.get(platform.machine(), "x86_64")
    with lab(arch) as cluster:
        expect("node1", arch, step("processor", "lab", "shell", "node1", "--name", NAME, "--", "uname -m"))
        write()
        failing = failures(cluster)
        expect("a healthy lab", set(), failing)
        step("fault", "lab", "fault", "mtu", "node2", "1500", "--name", NAME)
        expect("MTU 1500 on node2", True, ("mtu", "node2/rail0") in failures(cluster))
        step("heal", "lab", "fault", "heal", "--name", NAME)
        expect("a healed lab", set(), failures(cluster))
    print(f"x86 lab: all steps passed on {arch}")


@contextmanager
def lab(arch: str) -> Iterator[str]:
    """Bring up a lab of two nodes, and yield its cluster file."""
    lines = step("up", "lab", "up", "--kind", "vm", "--arch", arch, "--nodes", "2", "--name", NAME, "--json")
    try:
        yield json.loads(lines.splitlines()[-1])["data"]["cluster"]
    finally:
        step("down", "lab", "down", "--name", NAME)


def write() -> None:
    """Write from node2 into the memory of node1."""
    listening = "while kill -0 $! && ! ss -Hltn | grep -q ':18515 '; do sleep 0.2; done 2>/dev/null; echo listening"
    script = f"{PERFTEST} & {listening}; wait $!"
    shell = [RAILBED, "lab", "shell", "node1", "--name", NAME, "--", script]
    with subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        if "listening\n" not in iter(server.stdout.readline, ""):
            raise SystemExit("ib_write_bw on node1 does not listen")
        written = step("RDMA write", "lab", "shell", "node2", "--name", NAME, "--", f"{PERFTEST} node1")
    match = WRITTEN.search(written)
    if match is None:
        raise SystemExit(f"ib_write_bw: no result in\n{written}")
    print(f"  100 writes of 64 KiB, {match[1]} MB/s", flush=True)


def failures(cluster: str) -> set[tuple[str, str]]:
    """Return the rules that fail, with their subjects."""
    lines = step("check", "check", *RULES, "-c", cluster, "--json", "--timeout", "300", codes=(0, 1)).splitlines()
    findings = [record for record in map(json.loads, lines) if record["kind"] == "finding"]
    unsure = [record for record in findings if record["verdict"] == "unknown"]
    expect("findings that are unknown", [], unsure)
    return {(record["check"], record["subject"]) for record in findings if record["verdict"] == "fail"}


def step(title: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    """Run railbed, and return its output."""
    began = time.monotonic()
    done = subprocess.run([RAILBED, *arguments], stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    print(f"{title}: exit {done.returncode}, {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode not in codes:
        raise SystemExit(f"railbed {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout.strip()


def expect(what: str, expected: object, actual: object) -> None:
    """Stop unless a value is as expected."""
    if expected != actual:
        raise SystemExit(f"{what}: expected {expected}, got {actual}")


if __name__ == "__main__":
    main()
