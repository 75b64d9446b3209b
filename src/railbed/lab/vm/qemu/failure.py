"""Why a machine does not come up, from its console, QEMU's output and the free space on this machine's disk."""

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
    signal.SIGKILL: "the kernel kills what takes too much memory: see `dmesg`; --memory gives each node less",
    signal.SIGBUS: "the disk that holds the machine's memory is full: make room, or RAILBED_CACHE=FOLDER",
}


class NotBooted(HostFault):
    """A guest stopped, or made no progress, for no reason outside of QEMU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known about a machine that failed."""

    name: str
    console: str
    """Console output since the start."""
    folder: Path
    """Folder with its disk."""
    exit: int | None = None
    """The exit code of QEMU, where it ended."""
    qemu_output: Sequence[str] = ()


def has_panicked(console: str) -> bool:
    """Whether the kernel of a machine panicked."""
    return PANIC.search(console) is not None


def boot_failure(evidence: Evidence, waited: str = "", hint: str = "") -> HostFault:
    """Return the error for a machine that ended, or that did not get ready in time."""
    name = evidence.name
    if match := PANIC.search(evidence.console):
        return NotBooted(f"{name}: its kernel panicked: {match[0]}", hint=hint)
    if shutil.disk_usage(evidence.folder).free < LEAST_FREE:
        room = "make room, or RAILBED_CACHE=FOLDER names another place"
        return HostFault(f"{name} ran out of disk space in {evidence.folder}", hint=room)
    if evidence.exit is not None:
        why, remedy = _ending(evidence.exit)
        last = f": {evidence.qemu_output[-1]}" if evidence.qemu_output else ""
        fault = HostFault if remedy else NotBooted
        return fault(f"{name}: QEMU {why}{last}", hint=remedy or hint)
    if match := GUEST_MEMORY.search(evidence.console):
        return HostFault(f"{name} is short of memory: {match[0]}", hint="--memory MB gives each node more")
    lines = [line.strip() for line in evidence.console.splitlines() if line.strip()][-LAST_LINES:]
    last = f"last lines on its console: {' / '.join(lines)}" if lines else "its console is empty"
    return NotBooted(f"{name} is not ready, and {waited}; {last}", hint=hint)


def _ending(code: int) -> tuple[str, str]:
    if code >= 0:
        return f"ended with exit code {code}", ""
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"was ended by signal {-code}", ""
    return f"was ended by {number.name}", REMEDIES.get(number, "")
