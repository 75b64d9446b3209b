"""Which processes have a file open, while others start and end."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def holders(file: str | Path, proc: Path = PROC) -> list[int]:
    """Return the processes that have a file open; `proc` may be that of a node."""
    processes = [folder for folder in proc.iterdir() if folder.name.isdigit()]
    return [int(process.name) for process in processes if _holds(process / "fd", str(file))]


def _holds(descriptors: Path, file: str) -> bool:
    # A process may end between any two of these calls, and Path.glob raises if it does.
    with suppress(OSError):
        for link in descriptors.iterdir():
            with suppress(OSError):
                if str(link.readlink()) == file:
                    return True
    return False
