"""`railbed check` beside `ansible -m setup`, over the same SSH servers on this machine, in turns.

Both log in anew each time and read every host; Ansible gets one fork per host. Each figure is the median of the rounds.
The peak memory is that of the largest process, as the kernel counts it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.sshd import Servers, running_servers

HOSTS = (2, 4, 8, 16)
ROUNDS = int(os.environ.get("ROUNDS", "5"))
BIN = Path(sys.executable).parent
MEGABYTE = 1e6


@dataclass(frozen=True)
class Sample:
    """One run of one tool."""

    seconds: float
    megabytes: float


def main() -> None:
    """Measure and print a table."""
    print(
        f"{'hosts':>5}  {'railbed check':>14}  {'ansible -m setup':>17}  {'pipelined':>10}  {'times faster':>13}  {'memory':>8}"
    )
    first: float | None = None
    for count in HOSTS:
        ours, theirs, pipelined = measure(count)
        times = statistics.median(sample.seconds for sample in ours)
        peer = statistics.median(sample.seconds for sample in theirs)
        best = statistics.median(sample.seconds for sample in pipelined)
        memory = max(sample.megabytes for sample in ours)
        first = first or times
        print(
            f"{count:>5}  {times:>12.2f} s  {peer:>15.2f} s  {best:>8.2f} s  "
            f"{f'{peer / times:.1f} / {best / times:.1f}':>13}  {memory:>5.0f} MB",
            flush=True,
        )
    print(f"{HOSTS[-1]} hosts took {times / first:.2f} times as long as {HOSTS[0]}; {ROUNDS} rounds, medians")


def measure(count: int) -> tuple[list[Sample], list[Sample], list[Sample]]:
    """Run the tools in turns, so that a busy moment of the machine hits all alike."""
    ours: list[Sample] = []
    theirs: list[Sample] = []
    pipelined: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="railbed-bench-") as name:
        folder = Path(name)
        with running_servers(count, folder) as servers:
            (folder / "cluster.yaml").write_text(servers.cluster_yaml())
            (folder / "inventory.ini").write_text(inventory(servers))
            for number in range(ROUNDS):
                ours.append(railbed_check(folder))
                theirs.append(ansible_setup(folder, count, f"{number}", pipelining=False))
                pipelined.append(ansible_setup(folder, count, f"{number}p", pipelining=True))
    return ours, theirs, pipelined


def railbed_check(folder: Path) -> Sample:
    """Run `railbed check`; the servers share a hostname, so findings fail and the exit code is 1."""
    command = [str(BIN / "railbed"), "check", "--cluster", str(folder / "cluster.yaml"), "--json"]
    return run(command, {"RAILBED_RUNS": str(folder / "runs")}, allowed=(0, 1))


def ansible_setup(folder: Path, forks: int, name: str, *, pipelining: bool) -> Sample:
    """Run `ansible -m setup` with its own connection sharing, but no connection left over from the last round."""
    sockets = folder / f"s{name}"
    sockets.mkdir()
    environment = {
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_PIPELINING": str(pipelining),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=3s",
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
    }
    command = [str(BIN / "ansible"), "all", "-i", str(folder / "inventory.ini"), "-f", str(forks), "-m", "setup"]
    return run(command, environment, allowed=(0,))


def inventory(servers: Servers) -> str:
    """Return the servers as an Ansible inventory."""
    common = (
        f"ansible_user={servers.user} ansible_ssh_private_key_file={servers.key} "
        f"ansible_ssh_common_args='-o UserKnownHostsFile={servers.known_hosts}'"
    )
    return "".join(
        f"n{index} ansible_host={server.address} ansible_port={server.port} {common}\n"
        for index, server in enumerate(servers.servers, 1)
    )


def run(command: Sequence[str], environment: Mapping[str, str], allowed: Sequence[int]) -> Sample:
    """Run a command and return how long it took and the memory of its largest process."""
    # Both tools may keep their byte code, as they do for a user.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.monotonic()
    process = subprocess.Popen(
        command, env={**inherited, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in allowed:
        sys.exit(f"{command[0]} ended with {process.returncode}: {complaint.decode()}")
    return Sample(seconds, usage.ru_maxrss * 1024 / MEGABYTE)


if __name__ == "__main__":
    main()
