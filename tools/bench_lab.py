"""Measure how long labs take to come up, until every node answers, and to go down.

The first line is a plain script that creates the same namespaces, cables and SSH servers one after another.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "5"))
RAILBED = str(Path(sys.executable).parent / "railbed")
LABS = (
    ("16 namespaces", ["--kind", "netns", "--nodes", "16"], ROUNDS),
    ("2 virtual machines", ["--kind", "vm", "--nodes", "2"], max(1, ROUNDS // 2)),
)
BY_HAND = """
set -e
ip netns add rb-hand; ip -n rb-hand link add br0 type bridge; ip -n rb-hand link set br0 up
for n in $(seq 16); do
  ip netns add rb-hand-$n
  ip -n rb-hand link add p$n type veth peer name eth0 netns rb-hand-$n
  ip -n rb-hand link set p$n master br0 up
  ip -n rb-hand-$n addr add 10.250.250.$n/24 dev eth0; ip -n rb-hand-$n link set eth0 up
  ip netns exec rb-hand-$n /usr/sbin/sshd -f /dev/null -h "$1" -p 22 -o PidFile="$2/$n.pid"
done
"""
CLEAR = """
for n in $(seq 16); do kill $(cat "$2/$n.pid") 2>/dev/null; ip netns del rb-hand-$n; done; ip netns del rb-hand
"""


def main() -> None:
    """Measure and print."""
    print(f"{'lab':>20}{'up':>10}{'down':>10}   medians; rounds")
    with tempfile.TemporaryDirectory(prefix="railbed-bench-lab-") as folder:
        print(f"{'16 by hand, no wait':>20}{by_hand(Path(folder)):>8.2f} s{'':>10}   1")
        for title, options, rounds in LABS:
            railbed(["lab", "up", "--name", "bench", *options])  # builds the image if there is none
            railbed(["lab", "down", "--name", "bench"])
            samples = [measure(options) for _ in range(rounds)]
            up, down = (statistics.median(column) for column in zip(*samples, strict=True))
            print(f"{title:>20}{up:>8.2f} s{down:>8.2f} s   {rounds}", flush=True)


def measure(options: list[str]) -> tuple[float, float]:
    """Return how long a lab takes to come up and to go down."""
    return railbed(["lab", "up", "--name", "bench", *options]), railbed(["lab", "down", "--name", "bench"])


def railbed(arguments: list[str]) -> float:
    """Run railbed and return how long it took."""
    start = time.monotonic()
    done = subprocess.run([RAILBED, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return time.monotonic() - start


def by_hand(folder: Path) -> float:
    """Return how long a plain script takes to create 16 namespaces with an SSH server each."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    start = time.monotonic()
    try:
        subprocess.run(["sh", "-c", BY_HAND, "sh", str(key), str(folder)], check=True)
        return time.monotonic() - start
    finally:
        subprocess.run(["sh", "-c", CLEAR, "sh", str(key), str(folder)], check=False, capture_output=True)


if __name__ == "__main__":
    main()
