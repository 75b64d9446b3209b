"""Real OpenSSH servers on loopback addresses, with keys made for the test; without root."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import free_port

SSHD = shutil.which("sshd") or next((path for path in ("/usr/sbin/sshd",) if Path(path).exists()), None)
START_SECONDS = 60.0
OWN_RUN = "mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd"
WITH_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private", "sh", "-c")


@dataclass
class Server:
    """One running sshd."""

    address: str
    port: int
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End the server and all its sessions at once, as a power cut does."""
        self._signal(signal.SIGKILL)
        self.process.wait()

    def freeze(self) -> None:
        """Stop the server and all its sessions: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume what was frozen."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@dataclass
class Servers:
    """Servers and what a client needs to log in to them."""

    folder: Path
    user: str = field(default_factory=getpass.getuser)
    servers: list[Server] = field(default_factory=list)

    @property
    def key(self) -> Path:
        return self.folder / "client"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def cluster_yaml(self, name: str = "loopback") -> str:
        """Return a cluster file over these servers."""
        lines = [
            f"name: {name}",
            f"login: {{user: {self.user}, key: {self.key}, known_hosts: {self.known_hosts}}}",
            "nodes:",
        ]
        lines += [
            f"  n{index}: {{host: {server.address}, login: {{port: {server.port}}}}}"
            for index, server in enumerate(self.servers, 1)
        ]
        return "\n".join(lines) + "\n"


def descendants(ancestor: int) -> list[int]:
    """Return all processes below one; sshd puts each session into a process group of its own."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    processes = list(children.get(ancestor, []))
    for pid in processes:
        processes += children.get(pid, [])
    return processes


@contextmanager
def running_servers(
    count: int, folder: Path, *, options: Sequence[str] = (), shell: str = "", mounts: str = ""
) -> Iterator[Servers]:
    """Start servers on 127.0.0.2, 127.0.0.3, … and end them and all their sessions afterwards.

    In `options`, `{address}` is that of each server. As root, `mounts` are commands that each runs before it starts,
    where mounts are its own.
    """
    assert SSHD, "OpenSSH's sshd is not installed"
    servers = Servers(folder)
    _make_keys(servers, shell)
    (folder / "home").mkdir()
    try:
        for index in range(count):
            servers.servers.append(_start(folder, f"127.0.0.{index + 2}", options, mounts))
        host_key = (folder / "host.pub").read_text().split()[:2]
        servers.known_hosts.write_text(
            "".join(f"[{server.address}]:{server.port} {' '.join(host_key)}\n" for server in servers.servers)
        )
        yield servers
    finally:
        for server in servers.servers:
            if server.process.poll() is None:
                server.kill()


def _make_keys(servers: Servers, shell: str) -> None:
    for name in ("host", "client"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(servers.folder / name)], check=True
        )
    # A forced command stands in for a login shell that misbehaves.
    forced = f'command="{shell}" ' if shell else ""
    (servers.folder / "authorized_keys").write_text(forced + (servers.folder / "client.pub").read_text())


def _start(folder: Path, address: str, options: Sequence[str], mounts: str) -> Server:
    port = free_port(address)
    config = folder / f"sshd-{address}.conf"
    config.write_text(
        "\n".join(
            [
                *(option.format(address=address) for option in options),  # OpenSSH takes the first value it meets
                f"SetEnv HOME={folder / 'home'}",  # whatever this account's own start-up files do is not tested here
                f"ListenAddress {address}",
                f"Port {port}",
                f"HostKey {folder / 'host'}",
                f"AuthorizedKeysFile {folder / 'authorized_keys'}",
                f"PidFile {folder / address}.pid",
                "StrictModes no",
                "UsePAM no",
                "PasswordAuthentication no",
                "PermitRootLogin yes",
                "LogLevel ERROR",
            ]
        )
        + "\n"
    )
    assert SSHD is not None
    command = [SSHD, "-D", "-e", "-f", str(config)]
    if os.geteuid() == 0:
        # Each server has a /run of its own, as every machine: railbed keeps the lock of a change there.
        preparing = " && ".join(filter(None, (OWN_RUN, mounts)))
        command = [*WITH_OWN_MOUNTS, f'{preparing} && exec "$@"', "sh", *command]
    with (folder / f"{address}.log").open("wb") as log:
        process = subprocess.Popen(command, start_new_session=True, stderr=log)
    server = Server(address, port, process)
    _await_port(server, folder / f"{address}.log")
    return server


def _await_port(server: Server, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        try:
            with socket.create_connection((server.address, server.port), timeout=1):
                return
        except OSError:
            time.sleep(0.02)
    server.process.kill()
    raise RuntimeError(f"sshd did not start: {log.read_text()}")
