"""Runs the command line, in a process forked from one that has loaded it, or in a new one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.model.meters import RECORDED
from tests.support.background import Background
from tests.support.preloaded import server

RAILBED = str(Path(sys.executable).parent / "railbed")
SECONDS = 300.0
"""A command that takes longer hangs; on a busy machine most take a second or two."""
READ_AT_START = ("LANG", "LC_", "PYTHON")
"""Variables that Python reads when it starts."""


@dataclass(frozen=True)
class Result:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        records = [json.loads(line) for line in self.out.splitlines()]
        assert unlisted_labels(records) == {}
        return records

    @property
    def findings(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == "finding"]

    @property
    def problems(self) -> list[str]:
        """What is not ok, a line for each finding: short enough for the message of an assertion."""
        return [
            f"{finding['verdict']} {finding['check']} {finding['subject']}: {finding['observed']}"
            for finding in self.findings
            if finding["verdict"] != "ok"
        ]


def unlisted_labels(records: Iterable[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the labels of measurements that model/meters.py, and with it the reference, does not list."""
    unlisted: dict[str, set[str]] = {}
    for record in records:
        listed = RECORDED[record["name"]].labels if record.get("kind") == "measurement" else record.get("labels", ())
        if labels := set(record.get("labels", ())) - set(listed):
            unlisted.setdefault(record["name"], set()).update(labels)
    return unlisted


def environment(**changes: str) -> dict[str, str]:
    unchanged = {name: value for name, value in os.environ.items() if not name.startswith(("RAILBED_", "COLUMNS"))}
    return {**unchanged, "COLUMNS": "80", "NO_COLOR": "1", **changes}


def railbed(
    folder: Path, *arguments: str | Path, stdin: bytes = b"", timeout: float = SECONDS, **changes: str
) -> Result:
    """Run `railbed` in a folder, with changes to the environment."""
    words, env = [str(argument) for argument in arguments], environment(**changes)
    if any(name.startswith(READ_AT_START) for name in changes):
        done = subprocess.run(
            [RAILBED, *words], cwd=folder, env=env, input=stdin, capture_output=True, timeout=timeout, check=False
        )
    else:
        done = server().run(words, cwd=folder, env=env, stdin=stdin, timeout=timeout)
    return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def start(folder: Path, *arguments: str | Path) -> Background:
    """Start `railbed` and let it run; it reacts to Ctrl-C even if the tests run in the background and ignore it."""
    return Background([str(argument) for argument in arguments], cwd=folder, env=environment())
