"""Runs the real command line in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RAILBED = str(Path(sys.executable).parent / "railbed")
SECONDS = 120


@dataclass(frozen=True)
class Result:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def findings(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == "finding"]


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAILBED_", "COLUMNS"))}
    return {**kept, "COLUMNS": "80", "NO_COLOR": "1", **changes}


def railbed(folder: Path, *arguments: str | Path, stdin: bytes = b"", **changes: str) -> Result:
    """Run `railbed` in a folder."""
    done = subprocess.run(
        [RAILBED, *map(str, arguments)],
        cwd=folder,
        env=environment(**changes),
        input=stdin,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def start(folder: Path, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """Start `railbed` and let it run; a test run in the background must not hand its deafness to Ctrl-C on to it."""
    return subprocess.Popen(
        [RAILBED, *map(str, arguments)],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (no threads)
    )
