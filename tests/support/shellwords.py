"""Runs commands in a real shell that finds stubs only, and returns the words with which each program was called."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

STUBS = """
apt-get comm dcb dnf dpkg-query env ethtool fio getconf grep hostnamectl id ip iperf3 mkdir mlnx_qos modprobe nvidia-smi
ping python3 rm rmdir rpm sockperf sudo systemctl taskset tee timedatectl timeout xargs
""".split()  # noqa: SIM905  (a list of thirty lines reads worse)
"""Programs that record their arguments and do nothing else; none of a walk's commands may reach the real ones."""
HARMLESS = ("cat", "cut", "dirname", "head", "sed", "sort", "tail", "tr", "uniq")
"""Real programs, which only read."""
STUB = """#!/bin/sh
{{ printf '%s\\0' "${{0##*/}}" "$@"; printf '\\1\\0'; }} >>{log}
"""
COPY_INPUT = "#!/bin/sh\nexec cat\n"
"""In place of `dd` behind a pipe, which the product uses without files: without it, what writes there is killed."""
SECONDS = 60.0


@dataclass
class Shell:
    """A folder of stubs, and what they recorded."""

    folder: Path
    _log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self._log = self.folder.parent / f"{self.folder.name}.log"
        for name in STUBS:
            self.add(name)
        self._install("dd", COPY_INPUT)
        for name in HARMLESS:
            real = shutil.which(name)
            assert real
            (self.folder / name).symlink_to(real)

    def add(self, name: str) -> None:
        """Add a program that records its arguments."""
        self._install(name, STUB.format(log=f"'{self._log}'"))

    def _install(self, name: str, text: str) -> None:
        stub = self.folder / name
        stub.write_text(text)
        stub.chmod(0o755)

    def calls(self, script: str) -> list[list[str]]:
        """Run a script, and return the words of each call."""
        (calls,) = self.calls_of([script])
        return calls

    def calls_of(self, scripts: Sequence[str]) -> list[list[list[str]]]:
        """Run scripts, each in its own shell, and return the words of each call; kernel files are out of reach."""
        self._log.write_bytes(b"")
        inside = [
            script.replace("/sys/", f"{self.folder}/sys/").replace("/var/lib/", f"{self.folder}/") for script in scripts
        ]
        done = subprocess.run(
            [
                "/bin/sh",
                "-c",
                f"for script; do (eval \"$script\") </dev/null; printf '\\2\\0' >>'{self._log}'; done",
                "sh",
                *inside,
            ],
            env={"PATH": str(self.folder), "HOME": str(self.folder)},
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
        assert b"yntax error" not in done.stderr, done.stderr
        records = os.fsdecode(self._log.read_bytes()).split("\2\0")[:-1]
        assert len(records) == len(scripts)
        return [[call.removesuffix("\0").split("\0") for call in record.split("\1\0")[:-1]] for record in records]
