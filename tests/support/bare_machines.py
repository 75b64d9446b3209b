"""Machines that nobody has logged in to: real sshd, an account with a password, each with a home folder of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cli import SECONDS, Result, railbed
from tests.support.disks import small_disk
from tests.support.sshd import Server, running_servers
from tests.support.strangers import local_user, open_folder

PASSWORD = "correct-horse-7"  # noqa: S105  (of an account that exists for one test)
OPTIONS = (
    "SetEnv HOME={folder}/{address}",
    "AuthorizedKeysFile {folder}/{address}/.ssh/authorized_keys",
    "PasswordAuthentication yes",
    "LogLevel VERBOSE",
)


@dataclass(frozen=True)
class BareMachines:
    """Bare machines, and the control machine's folder that `railbed` is called in."""

    user: str
    homes: Path
    here: Path
    servers: Sequence[Server]
    fingerprint: str

    @property
    def hosts(self) -> list[str]:
        return [f"{self.user}@{server.address}:{server.port}" for server in self.servers]

    def home(self, number: int) -> Path:
        return self.homes / self.servers[number].address

    def keys(self, number: int) -> str:
        """Return what is in the authorized_keys of a machine; empty if there is no such file."""
        file = self.home(number) / ".ssh" / "authorized_keys"
        return file.read_text() if file.exists() else ""

    def give_homes(self) -> None:
        """Make all in the home folders the account's."""
        for number in range(len(self.servers)):
            for path in (self.home(number), *self.home(number).rglob("*")):
                shutil.chown(path, self.user)

    def configure(self, text: str) -> None:
        """Write the SSH configuration of the control machine's user."""
        folder = self.here / ".ssh"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "config").write_text(text)

    def logs(self) -> list[str]:
        """Return what each sshd has logged."""
        return [(self.here.parent / "servers" / f"{server.address}.log").read_text() for server in self.servers]

    def everything(self) -> list[Path]:
        """Return all files here, on the machines, and of their servers."""
        folders = (self.here, self.homes, self.here.parent / "servers")
        return [path for folder in folders for path in folder.rglob("*") if path.is_file()]

    def set_up(self, *words: str, hosts: Sequence[str] | None = None, **changes: str) -> Result:
        """Call `discover --set-up` with the fingerprint confirmed and the password in the environment."""
        confirmed = ["--fingerprint", self.fingerprint, "--password", "env:LAB_PASSWORD"]
        return self.call(*confirmed, *words, hosts=hosts, **{"LAB_PASSWORD": PASSWORD, **changes})

    def call(self, *words: str, hosts: Sequence[str] | None = None, **changes: str) -> Result:
        named = self.hosts if hosts is None else hosts
        words = ("discover", "--set-up", *named, *words)
        return railbed(self.here, *words, stdin=b"", timeout=SECONDS, **self.variables(**changes))

    def variables(self, **changes: str) -> dict[str, Any]:
        """Return the environment of the control machine's user."""
        return {"HOME": str(self.here), "SSH_AUTH_SOCK": "", **changes}


@contextmanager
def bare_machines(
    count: int, folder: Path, *, options: Sequence[str] = (), disks: Collection[int] = (), sudoer: bool = False
) -> Iterator[BareMachines]:
    """Start machines, and remove the account afterwards; the test is skipped if that needs rights.

    `disks` are the machines whose home folder is a small disk of its own. With `sudoer`, the account may use sudo with
    its password; what machines write for sudo is then in `sudo` beside their home folders.
    """
    with local_user() as user, open_folder(0o755) as homes, ExitStack() as stack:
        subprocess.run(["chpasswd"], input=f"{user}:{PASSWORD}".encode(), check=True, timeout=60)
        (folder / "servers").mkdir()
        for number in range(count):  # before the servers start: each has mounts of its own
            home = homes / f"127.0.0.{number + 2}"
            if number in disks:
                stack.enter_context(small_disk(home))
            else:
                home.mkdir()
            shutil.chown(home, user)
        filled = [option.replace("{folder}", str(homes)) for option in (*options, *OPTIONS)]
        mounts = ""
        if sudoer:
            rules = homes / "sudo"
            rules.mkdir()
            (rules / "account").write_text(f"{user} ALL=(ALL:ALL) ALL\n")
            mounts = f"mount --bind {rules} /etc/sudoers.d"
        with running_servers(count, folder / "servers", options=filled, mounts=mounts) as servers:
            here = folder / "here"
            here.mkdir()
            yield BareMachines(user, homes, here, servers.servers, fingerprint_of(folder / "servers" / "host.pub"))


def fingerprint_of(file: Path) -> str:
    """Return the fingerprint of a key, from ssh-keygen."""
    done = subprocess.run(["ssh-keygen", "-lf", str(file)], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()[1]
