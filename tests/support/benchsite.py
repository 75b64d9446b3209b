"""A cluster to measure: real OpenSSH servers on loopback addresses, each with its own port on a rail."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from tests.support.sshd import Servers


def write_cluster(servers: Servers, folder: Path, *, speed: float | None = None, port: int = 29500) -> None:
    """Write cluster.yaml over servers; their rail is the loopback network."""
    limit = f", speed: {speed}" if speed else ""
    nodes = [
        f"  n{index}: {{host: {server.address}, login: {{port: {server.port}}}, python: {sys.executable}, "
        f"ports: [{{netdev: lo, rail: rail0, address: {server.address}}}]}}"
        for index, server in enumerate(servers.servers, 1)
    ]
    text = [
        "name: loopback",
        f"login: {{user: {servers.user}, key: {servers.key}, known_hosts: {servers.known_hosts}}}",
        f"rails: {{rail0: {{subnet: 127.0.0.0/8{limit}}}}}",
        "nodes:",
        *nodes,
        f"training: {{rendezvous_port: {port}, workdir: {folder / 'disk'}}}",
    ]
    (folder / "disk").mkdir(exist_ok=True)
    (folder / "cluster.yaml").write_text("\n".join(text) + "\n")


def write_suite(folder: Path, *steps: str, first_port: int = 20500) -> None:
    """Write suite.yaml with these steps."""
    lines = [f"first_port: {first_port}", "steps:", *(f"  - {{{step}}}" for step in steps)]
    (folder / "suite.yaml").write_text("\n".join(lines) + "\n")


def processes_with(word: str) -> list[str]:
    """Return the command lines that hold a word, of any process but this one."""
    matching = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().decode(errors="replace").replace("\0", " ")
            if word in line and int(path.parent.name) != os.getpid():
                matching.append(line)
    return matching
