"""`lab up` and `lab down` that are killed: what they leave is removed by the next one."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.support.benchsite import processes_with
from tests.support.cli import Result
from tests.support.kills.scenario import Killed, Scenario

NAME = "killed"
UP = ("lab", "up", "--name", NAME, "--nodes", "3", "--rails", "2")
DOWN = ("lab", "down", "--name", NAME)
GONE_SECONDS = 60.0


def networks() -> set[str]:
    """Return the namespaces and interfaces of all labs on this machine."""
    return {path.name for path in [*Path("/run/netns").glob("railbed-*"), *Path("/sys/class/net").glob("railbed-*")]}


@dataclass
class LabUpKilled(Scenario):
    """A lab that comes up. Its processes run on: those that nothing ends are what `lab down` leaves."""

    leaves_nothing: ClassVar = False
    ids: set[str] = field(default_factory=set)
    """Of all labs that were ever seen in the cache; their namespaces have such names."""

    def __post_init__(self) -> None:
        self.cache = self.folder / "cache"
        self.variables["RAILBED_CACHE"] = str(self.cache)

    @property
    def arguments(self) -> Sequence[str]:
        return UP

    def clean(self) -> None:
        if list(self.cache.glob("labs/*")):
            self.railbed(*DOWN)
        assert (left := self.left()) == set(), left
        shutil.rmtree(self.cache, ignore_errors=True)

    def railbed(self, *arguments: str | Path) -> Result:
        self.note_ids()
        result = super().railbed(*arguments)
        self.note_ids()
        return result

    def note_ids(self) -> None:
        """Note which labs are in the cache."""
        for path in self.cache.glob("labs/*/lab.json"):
            with suppress(FileNotFoundError):
                self.ids.add(json.loads(path.read_text())["id"])

    def verify(self, killed: Killed) -> None:  # noqa: ARG002
        status = self.railbed("lab", "status")
        assert status.code == 0, status
        was_there = list(self.cache.glob("labs/*/lab.json"))
        was_up = any('"up"' in path.read_text() for path in was_there)
        again = self.railbed(*UP)
        if was_up:
            assert (again.code, "already exists" in again.err) == (2, True), again
        else:
            assert again.code == 0, again
            assert not was_there or "removed the remains" in again.out + again.err, again
        answering = self.railbed("lab", "shell", "node3", "--name", NAME, "--", "hostname")
        assert answering.out == "node3\n", answering
        self.assert_down()

    def assert_down(self) -> None:
        """Take the lab down, and see that nothing is left."""
        down = self.railbed(*DOWN)
        assert down.code == 0, down
        assert (left := self.left()) == set(), left

    def left(self) -> set[str]:
        """Return the namespaces, interfaces, processes and files of the labs of this cache."""
        deadline = time.monotonic() + GONE_SECONDS
        while True:
            left = {name for name in networks() if name.split("-")[1] in self.ids}
            left.update(processes_with(f"{self.cache}/labs/"), map(str, self.cache.glob("labs/*")))
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)


@dataclass
class LabDownKilled(LabUpKilled):
    """A lab that is taken down."""

    def prepare(self) -> None:
        result = self.railbed(*UP)
        assert result.code == 0, result

    @property
    def arguments(self) -> Sequence[str]:
        return DOWN

    def verify(self, killed: Killed) -> None:  # noqa: ARG002
        status = self.railbed("lab", "status")
        assert status.code == 0, status
        if list(self.cache.glob("labs/*")):
            self.assert_down()
        else:
            again = self.railbed(*DOWN)
            assert (again.code, f"there is no lab called '{NAME}'" in again.err) == (2, True), again
            assert (left := self.left()) == set(), left
        again = self.railbed(*UP)
        assert again.code == 0, again
        self.assert_down()
