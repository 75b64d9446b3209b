"""Processes of this machine that enter the namespaces of a netns lab's nodes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

KINDS = ("net", "uts", "ipc", "pid", "mnt")
"""Mounts come last: the others are opened through /proc of this machine."""
LIBC = ctypes.CDLL(None, use_errno=True)


def process_of(namespace: str) -> int:
    """Return the first process in a process namespace, which is written as /proc shows it: `pid:[4026532218]`."""
    numbers = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "ns/pid").readlink().name == namespace:
                numbers.append(int(folder.name))
    assert numbers, f"no process is in {namespace}"
    return min(numbers)


def fork_into(processes: Sequence[int]) -> bool:
    """Fork into the namespaces of each process; return True in the forks, and False where it was called."""
    for process in processes:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        _enter(process)
        if os.fork():  # only children are in the process namespace
            os._exit(0)
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        return True
    return False


def _enter(process: int) -> None:
    with ExitStack() as stack:
        files = [stack.enter_context(open(f"/proc/{process}/ns/{kind}", "rb")) for kind in KINDS]  # noqa: PTH123
        for file in files:
            if LIBC.setns(file.fileno(), 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
