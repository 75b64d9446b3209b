"""The processes of a scenario: on the nodes of its lab, and on this machine.

Nodes are namespaces of this machine, so that all their processes are in /proc here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from railbed.errors import UsageError
from railbed.lab.folder import load_lab
from tests.support.namespaces import first_process

Process = tuple[int, str]
"""The number of a process and when it started: numbers are used again."""
END_SECONDS = 150.0
"""How long what a killed verb left may take to end: a guard that undoes a change on a busy machine, for example."""


class Processes:
    """Distinguishes what a verb starts from what runs anyway."""

    def __init__(self, lab: str | None, folder: Path) -> None:
        self._lab, self._folder = lab, os.fsencode(folder)
        self._before = set(self._all())

    def left(self) -> dict[Process, str]:
        """Return the processes that run since, with their command lines."""
        return {process: line for process, line in self._all().items() if process not in self._before}

    def until_none_is_left(self) -> float:
        """Wait until all have ended; return how long that took."""
        start = time.monotonic()
        while left := self.left():
            assert time.monotonic() - start < END_SECONDS, f"orphans: {sorted(left.values())}"
            time.sleep(0.1)
        return time.monotonic() - start

    def _all(self) -> dict[Process, str]:
        networks = set(_networks(self._lab)) if self._lab else set()
        processes = {}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if str((path / "ns/net").readlink()) in networks or self._is_in_folder(path):
                    started = (path / "stat").read_text().rpartition(")")[2].split()
                    if started[0] not in "ZX" and int(path.name) != os.getpid():
                        line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                        processes[int(path.name), started[19]] = line.strip()[:200]
        return processes

    def _is_in_folder(self, path: Path) -> bool:
        """Whether a process works in the folder, or its arguments or its environment name it."""
        places = (bytes((path / "cwd").readlink()), (path / "cmdline").read_bytes())
        return any(self._folder in text for text in (*places, (path / "environ").read_bytes()))


def _networks(lab: str) -> Iterator[str]:
    """Yield the network namespaces of the nodes of a lab that are up."""
    with suppress(UsageError):
        for machine in load_lab(lab).machines:
            if first := first_process(lab, machine.name):
                with suppress(OSError):
                    yield str(Path(f"/proc/{first}/ns/net").readlink())
