"""Labs for tests: brought up by the command line, and taken down whatever happens."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Result, railbed

UP_SECONDS = 840.0


@dataclass(frozen=True)
class RunningLab:
    """A lab that answers."""

    name: str
    cluster: Path
    folder: Path

    def railbed(self, *arguments: str | Path) -> Result:
        """Run a verb on the lab's cluster."""
        return call(self.folder, *arguments, "--cluster", self.cluster)

    def fault(self, *arguments: str) -> Result:
        """Run `lab fault` on it."""
        return call(self.folder, "lab", "fault", *arguments, "--name", self.name)

    def shell(self, node: str, *command: str) -> Result:
        """Run a command on a node as a person does."""
        return call(self.folder, "lab", "shell", node, "--name", self.name, "--", *command)

    def verdicts(self, *rules: str, seconds: int = 60) -> dict[tuple[str, str], str]:
        """Return the verdicts of rules, by rule and subject; a node that does not answer costs the seconds given."""
        findings = self.railbed("check", *rules, "--json", "--timeout", str(seconds)).findings
        return {(one["check"], one["subject"]): one["verdict"] for one in findings}

    def failing(self, *rules: str, seconds: int = 60) -> set[tuple[str, str]]:
        """Return the rules that fail, with their subjects."""
        return {key for key, verdict in self.verdicts(*rules, seconds=seconds).items() if verdict == "fail"}

    def status(self) -> dict[str, Any]:
        """Return what `lab status` says of it."""
        records = call(self.folder, "lab", "status", "--json").records
        (data,) = [record["data"] for record in records if record["subject"] == self.name]
        assert isinstance(data, dict)
        return data


def kept() -> dict[str, str]:
    """Return what of the environment says where labs and images lie."""
    return {name: os.environ[name] for name in ("RAILBED_CACHE",) if name in os.environ}


def call(folder: Path, *arguments: str | Path) -> Result:
    """Run `railbed` with the cache of whoever runs the tests: labs share a machine, and images are made once."""
    return railbed(folder, *arguments, stdin=b"", timeout=UP_SECONDS, **kept())


@contextmanager
def running_lab(folder: Path, *options: str) -> Iterator[RunningLab]:
    """Bring up a lab of a name of its own, and take it down."""
    if os.geteuid() != 0:
        pytest.skip("labs need root")
    name = f"test-{secrets.token_hex(3)}"
    result = call(folder, "lab", "up", "--name", name, *options, "--json")
    if result.code == 3 and "lab needs" in result.err:
        pytest.skip(result.err)
    assert result.code == 0, result
    try:
        yield RunningLab(name, Path(result.records[-1]["data"]["cluster"]), folder)
    finally:
        down = call(folder, "lab", "down", "--name", name)
        assert down.code == 0, down
