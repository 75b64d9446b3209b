"""Measure what `railbed bench` adds to the wall time of its tools: the same suite with railbed and a plain script.

Both use the same two SSH servers on this machine, in turns. The script does what a careful person would type: start the
server over SSH, wait until it listens, run the client over SSH, with a new connection each time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.benchsite import write_cluster, write_suite
from tests.support.sshd import Server, Servers, running_servers

ROUNDS = int(os.environ.get("ROUNDS", "3"))
RAILBED = str(Path(sys.executable).parent / "railbed")
SECONDS = 5
STEPS = (
    f"test: iperf3, seconds: {SECONDS}, direction: each",
    f"test: sockperf_tcp, seconds: {SECONDS}, direction: each",
    "test: ping, samples: 200",
)
PORT = 21700


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="railbed-bench-tools-") as name:
        folder = Path(name)
        (folder / "keys").mkdir()
        with running_servers(2, folder / "keys") as servers:
            write_cluster(servers, folder)
            write_suite(folder, *STEPS, first_port=PORT)
            samples = [(by_hand(servers), by_railbed(folder)) for _ in range(ROUNDS)]
    hand, ours = (statistics.median(column) for column in zip(*samples, strict=True))
    print(f"{'tools by hand':>16}{'railbed bench':>16}{'added':>10}   medians of {ROUNDS}")
    print(f"{hand:>14.2f} s{ours:>14.2f} s{(ours / hand - 1) * 100:>8.1f} %")


def by_railbed(folder: Path) -> float:
    """Run the suite with railbed and return how long it took."""
    start = time.monotonic()
    subprocess.run([RAILBED, "bench", "suite.yaml"], cwd=folder, check=True, capture_output=True)
    return time.monotonic() - start


def by_hand(servers: Servers) -> float:
    """Run the same tools over ssh, one after another, and return how long it took."""
    start = time.monotonic()
    first, second = servers.servers
    directions = ((first, second), (second, first))
    for port, (source, target) in enumerate(directions, PORT + 1000):
        server = f"iperf3 -s -1 -p {port} -B {target.address}"
        client = f"iperf3 -c {target.address} -p {port} -t {SECONDS} -J"
        pair(servers, source, target, port, server, client)
    for port, (source, target) in enumerate(directions, PORT + 1100):
        server = f"timeout {SECONDS + 3} sockperf sr --tcp -i {target.address} -p {port}"
        client = f"sockperf pp --tcp -i {target.address} -p {port} -t {SECONDS} -m 14"
        pair(servers, source, target, port, server, client)
    for source, target in directions:
        ping = f"ping -n -c 200 -i 0.005 {target.address}"
        subprocess.run([*ssh(servers, source), ping], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def pair(servers: Servers, source: Server, target: Server, port: int, server: str, client: str) -> None:  # noqa: PLR0917
    """Start a server, wait until it listens, run the client, and end the server."""
    listening = f"until ss -Hltn | grep -q ':{port} '; do sleep 0.05; done"
    with subprocess.Popen([*ssh(servers, target), server], stdout=subprocess.DEVNULL) as waiting:
        subprocess.run([*ssh(servers, target), listening], check=True)
        subprocess.run([*ssh(servers, source), client], check=True, stdout=subprocess.DEVNULL)
        waiting.terminate()


def ssh(servers: Servers, server: Server) -> list[str]:
    """Return the ssh command to a server."""
    options = ["-q", "-i", str(servers.key), "-o", f"UserKnownHostsFile={servers.known_hosts}", "-p", str(server.port)]
    return ["ssh", *options, f"{servers.user}@{server.address}"]


if __name__ == "__main__":
    main()
