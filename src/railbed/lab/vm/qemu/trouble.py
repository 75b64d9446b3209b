"""Why a machine does not come up, from what it left: its console, QEMU's last words, and this machine's disk."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from railbed.lab.host import HostFault

PANIC = re.compile(r"Kernel panic - not syncing[^\n]*")
GUEST_MEMORY = re.compile(r"Out of memory: [^\n]*")
LEAST_FREE = 16 << 20
LAST_LINES = 2
REMEDIES = {
    signal.SIGKILL: "the kernel kills what takes too much memory: `dmesg` says so; --memory gives each node less",
    signal.SIGBUS: "the disk that holds the machine's memory is full: make room, or RAILBED_CACHE=FOLDER",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What a machine left."""

    name: str
    console: str
    """What it said since it was started."""
    folder: Path
    """Where its disk lies."""
    exit: int | None = None
    """The exit code of QEMU, where it ended."""
    qemu_said: Sequence[str] = ()


def has_panicked(console: str) -> bool:
    """Whether the kernel of a machine gave up."""
    return PANIC.search(console) is not None


def trouble(remains: Remains, waited: str = "", hint: str = "") -> HostFault:
    """Return the error for a machine that ended, or that was waited for in vain."""
    name = remains.name
    if found := PANIC.search(remains.console):
        return HostFault(f"{name}: its kernel gave up: {found[0]}", hint=hint)
    if shutil.disk_usage(remains.folder).free < LEAST_FREE:
        room = "make room, or RAILBED_CACHE=FOLDER names another place"
        return HostFault(f"{name} has no disk any more: there is no space left in {remains.folder}", hint=room)
    if remains.exit is not None:
        why, remedy = _ending(remains.exit)
        last = f": {remains.qemu_said[-1]}" if remains.qemu_said else ""
        return HostFault(f"{name}: QEMU {why}{last}", hint=remedy or hint)
    if found := GUEST_MEMORY.search(remains.console):
        return HostFault(f"{name} is short of memory: {found[0]}", hint="--memory MB gives each node more")
    said = [line.strip() for line in remains.console.splitlines() if line.strip()][-LAST_LINES:]
    last = f"the last on its console: {' / '.join(said)}" if said else "its console said nothing"
    return HostFault(f"{name} is not ready, and {waited}; {last}", hint=hint)


def _ending(code: int) -> tuple[str, str]:
    if code >= 0:
        return f"ended with exit code {code}", ""
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"was ended by signal {-code}", ""
    return f"was ended by {number.name}", REMEDIES.get(number, "")
