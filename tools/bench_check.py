"""Compare `railbed check` with `ansible -m setup`, over the same SSH servers on this machine, in turns.

Both log in again each time and read every host; Ansible gets one fork per host, and is measured with and without its
pipelining. A cluster without ports needs fewer probes and no second reading of counters, so railbed is also measured
with a port on every host. Each figure is the median of the rounds; memory is that of railbed's process.
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
    own_seconds: float
    """Processor time of the tool, its forks and its SSH clients, without the servers."""
    megabytes: float


def main() -> None:
    """Measure and print a table."""
    names = ("check", "with a rail", "ansible", "pipelined")
    print(f"{'hosts':>5}" + "".join(f"{name:>14}" for name in names) + f"{'times':>12}{'own CPU':>14}{'memory':>8}")
    medians: list[float] = []
    for count in HOSTS:
        samples = measure(count)
        ours, railed, peer, best = (statistics.median(sample.seconds for sample in samples[tool]) for tool in samples)
        mine, others = (
            statistics.median(sample.own_seconds for sample in samples[tool]) for tool in ("railbed", "ansible")
        )
        memory = max(sample.megabytes for sample in samples["railbed"])
        medians.append(ours)
        figures = "".join(f"{seconds:>12.2f} s" for seconds in (ours, railed, peer, best))
        times, own = f"{peer / ours:.1f} / {best / ours:.1f}", f"{mine:.1f} / {others:.1f} s"
        print(f"{count:>5}{figures}{times:>12}{own:>14}{memory:>5.0f} MB", flush=True)
    ratio = medians[-1] / medians[0]
    print(f"{HOSTS[-1]} hosts took {ratio:.2f} times as long as {HOSTS[0]}; medians of {ROUNDS} rounds")


def measure(count: int) -> dict[str, list[Sample]]:
    """Run the tools in turns, so that a busy moment affects all of them."""
    samples: dict[str, list[Sample]] = {"railbed": [], "railbed with a rail": [], "ansible": [], "pipelined": []}
    with tempfile.TemporaryDirectory(prefix="railbed-bench-") as name:
        folder = Path(name)
        with running_servers(count, folder) as servers:
            (folder / "cluster.yaml").write_text(servers.cluster_yaml())
            (folder / "rail.yaml").write_text(with_rail(servers))
            (folder / "inventory.ini").write_text(inventory(servers))
            for number in range(ROUNDS):
                samples["railbed"].append(railbed_check(folder, "cluster.yaml"))
                samples["railbed with a rail"].append(railbed_check(folder, "rail.yaml"))
                samples["ansible"].append(ansible_setup(folder, count, f"{number}", pipelining=False))
                samples["pipelined"].append(ansible_setup(folder, count, f"{number}p", pipelining=True))
    return samples


def with_rail(servers: Servers) -> str:
    """Return a cluster file with one port per host, on loopback, so that the rules for ports apply as well."""
    text = servers.cluster_yaml() + "rails: {loop: {subnet: 127.0.0.0/8}}\n"
    for server in servers.servers:
        port = f"ports: [{{netdev: lo, rail: loop, address: {server.address}}}]"
        text = text.replace(f"{{host: {server.address},", f"{{{port}, host: {server.address},")
    return text


def railbed_check(folder: Path, cluster: str) -> Sample:
    """Run `railbed check`; the servers share a hostname, so findings fail and the exit code is 1."""
    command = [str(BIN / "railbed"), "check", "--cluster", str(folder / cluster), "--json"]
    return run(command, {"RAILBED_RUNS": str(folder / "runs")}, allowed=(0, 1))


def ansible_setup(folder: Path, forks: int, name: str, *, pipelining: bool) -> Sample:
    """Run `ansible -m setup` with its own connection sharing, but without a connection from the previous round."""
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
    """Run a command; return how long it took and the memory of its largest process."""
    # Both tools may cache their byte code, as they do for a user.
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
    return Sample(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MEGABYTE)


if __name__ == "__main__":
    main()
