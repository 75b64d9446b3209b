"""Processes of a lab that outlive railbed.

They are found by a unique argument and the folder they run in, even if the railbed that started them was killed before
it could write anything down.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from railbed.lab.model import StoredLab


def detach(lab: StoredLab, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process in the lab's folder that continues when railbed ends."""
    with log.open("ab") as output:
        return subprocess.Popen(
            arguments,
            cwd=lab.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def forget(process: subprocess.Popen[bytes]) -> None:
    """Release a process that continues on its own, so that Python does not warn when the object is collected."""
    if process.poll() is None:
        process.returncode = 0


def find_processes(lab: StoredLab, tag: str) -> list[int]:
    """Return the processes in a lab's folder with that argument."""
    pids = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                folder.name.isdigit()
                and tag.encode() in (folder / "cmdline").read_bytes().split(b"\0")
                and (folder / "cwd").readlink() == lab.folder.resolve()
                and is_own(folder)
            ):
                pids.append(int(folder.name))
    return pids


def is_own(process: Path) -> bool:
    """Whether this user started a process, from its folder in /proc: anybody can start some with the same arguments.

    The owner of that folder does not show it: su and the like belong to root, whoever starts them.
    """
    lines = (process / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.startswith("Uid:") and int(line.split()[1]) == os.geteuid() for line in lines)


def is_stopped(pid: int) -> bool:
    """Whether a process does not run: it is stopped by a signal, or has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t", "Z")
    except OSError:
        return True
