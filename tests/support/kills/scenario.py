"""What is killed, and what must hold afterwards.

A scenario is a verb on a lab. `attack` measures how long the verb takes undisturbed, and then kills it a number of
times after a random part of that time, or of the time since a record. After each kill no process of it may remain;
`verify` looks at the rest: records and files, devices, and that the next command works and reports what happened.
"""

from __future__ import annotations

import json
import os
import random
import select
import shlex
import shutil
import signal
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from tests.support.background import Background
from tests.support.cli import Result, environment, railbed
from tests.support.kills.processes import Processes
from tests.support.labs import cache_variables
from tests.support.training import Records

VERB_SECONDS = 600.0
POLL_SECONDS = 0.05
PIPE_BYTES = 1 << 16
SHORTENED = 0.8
"""If a verb ended before it was killed, the next attempt takes it to be this much shorter than it was."""


@dataclass(frozen=True, kw_only=True)
class Killed:
    """A verb that was killed."""

    seconds: float
    """How long it ran."""
    run: Path | None
    """The folder of its run, if it had one already."""
    records: Records
    """What it had stored."""

    def events(self, name: str) -> Records:
        """Return its events of a name."""
        return [record for record in self.records if record.get("name") == name]


@dataclass
class Duration:
    """How long a verb takes, and how long until the middle of its work begins."""

    seconds: float
    middle: float = 0.0


@dataclass(frozen=True)
class Moment:
    """When to kill a verb."""

    seconds: float
    from_middle: bool = False
    """Whether the seconds count from the record that begins the middle of its work."""


@dataclass
class Scenario(ABC):
    """A verb, where it works, and what must hold after it was killed."""

    folder: Path
    """Where commands are run, and what they write to: all processes that name it belong to the verb."""
    lab: str | None = None
    """The lab whose nodes it uses."""
    variables: dict[str, str] = field(default_factory=dict)
    """Of the environment of its commands."""
    middle: ClassVar = ""
    """The record that begins the most delicate part: half of the kills come after it."""
    leaves_nothing: ClassVar = True
    """Whether all its processes end by themselves."""
    slowest_end: float = 0.0
    """The longest that processes of a killed verb lived on."""

    @property
    @abstractmethod
    def arguments(self) -> Sequence[str]:
        """What is killed."""

    def prepare(self) -> None:  # noqa: B027 - most verbs need nothing
        """Make everything as it is before the verb."""

    @abstractmethod
    def verify(self, killed: Killed) -> None:
        """See that the next command works, reports what happened, and that nothing is lost."""

    def clean(self) -> None:
        """Remove the runs of the folder."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)

    def railbed(self, *arguments: str | Path) -> Result:
        """Run a command to its end."""
        variables = {**cache_variables(), **self.variables}
        return railbed(self.folder, *arguments, stdin=b"", timeout=VERB_SECONDS, **variables)

    def start(self) -> Background:
        """Start what is killed."""
        env = environment(**{**cache_variables(), **self.variables})
        return Background([*self.arguments, "--json"], cwd=self.folder, env=env)

    def run_undisturbed(self) -> Duration:
        """Run the verb to its end, and return how long it takes."""
        with Watched(self.start(), self.middle) as verb:
            while verb.read(POLL_SECONDS):
                pass
        assert self.succeeded(verb.result), verb.result
        return Duration(time.monotonic() - verb.start, verb.middle_seconds)

    def succeeded(self, result: Result) -> bool:
        """Whether the verb did its work."""
        return result.code == 0

    def kill_after(self, moment: Moment) -> Killed | None:
        """Start the verb, and kill it at a moment; None if it ended before."""
        runs = set(self.runs())
        with Watched(self.start(), self.middle if moment.from_middle else "") as verb:
            while (left := verb.until(moment)) > 0 and verb.read(min(left, POLL_SECONDS)):
                pass
            took = time.monotonic() - verb.start
            verb.process.kill()
            if verb.process.wait(VERB_SECONDS) != -signal.SIGKILL:
                return None
        return self.killed(took, set(self.runs()) - runs)

    def killed(self, seconds: float, runs: set[Path]) -> Killed:
        """Return what a killed verb left."""
        assert len(runs) < 2, runs
        run = next(iter(runs), None)
        return Killed(seconds=seconds, run=run, records=records_of(run) if run else [])

    def runs(self) -> list[Path]:
        """Return the folders of runs, also of those that are not runs yet."""
        return sorted((self.folder / "runs").glob("*"))

    def assert_listed(self, killed: Killed) -> list[str]:
        """Assert that `runs` reports how a killed run ended; return the command that it advises to continue."""
        listing = self.railbed("runs", "--json")
        assert listing.code == 0, listing
        listed = {run["id"]: run for run in map(json.loads, listing.out.splitlines())}
        start_again = ["railbed", *self.arguments, "--json"]
        if killed.run is None or not (killed.run / "run.json").exists():
            assert killed.run is None or killed.run.name not in listed
            return start_again
        run = listed[killed.run.name]
        if run["status"] == "done":  # it was about to exit
            return start_again
        assert run["status"] == "died", run
        shown = self.railbed("runs")
        assert f"{killed.run.name} was killed; to continue: {run['next']}\n" in shown.out, shown
        return shlex.split(run["next"])


class Watched:
    """A verb whose output is read while it runs."""

    def __init__(self, process: Background, middle: str = "") -> None:
        self.process = process
        self.start = time.monotonic()
        self.middle_seconds = 0.0
        self._mark = f'"name":"{middle}"'.encode()
        self._is_after = not middle
        self._read = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
        self._open = list(self._read)

    def read(self, seconds: float) -> bool:
        """Read what arrives within a time; return whether more may come."""
        for number in select.select(self._open, [], [], seconds)[0]:
            piece = os.read(number, PIPE_BYTES)
            self._read[number] += piece
            if not piece:
                self._open.remove(number)
        if not self._is_after and self._mark in self._read[self.process.stdout.fileno()]:
            self.middle_seconds, self._is_after = time.monotonic() - self.start, True
        return bool(self._open)

    def until(self, moment: Moment) -> float:
        """Return the seconds until a moment; unknown ones are many."""
        after = self.middle_seconds if self._is_after else VERB_SECONDS
        return self.start + after + moment.seconds - time.monotonic()

    @property
    def result(self) -> Result:
        """How it ended."""
        out, err = (text.decode(errors="replace") for text in self._read.values())
        return Result(self.process.wait(VERB_SECONDS), out, err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.__exit__()


def attack(scenario: Scenario, kills: int, seed: int) -> list[str]:
    """Kill a scenario's verb at random moments; return what did not hold."""
    name = type(scenario).__name__
    chance = random.Random(f"{name} {seed}")  # noqa: S311
    failures: list[str] = []
    scenario.railbed("--version")  # the first command loads what all others are forked from
    scenario.prepare()
    duration = scenario.run_undisturbed()
    log(f"{name}: {duration.seconds:.1f} s undisturbed; seed {seed}")
    for number in range(1, kills + 1):
        fraction, from_middle = chance.random(), bool(scenario.middle) and number % 2 == 0
        moment = f"at {fraction:.3f}{f' since {scenario.middle}' if from_middle else ''}"
        try:
            killed = kill_at(scenario, fraction, duration, from_middle=from_middle)
            log(f"{name} {number} of {kills}: killed {moment}, after {killed.seconds:.2f} s")
            scenario.verify(killed)
        except Exception as error:
            log(traceback.format_exc(limit=-4))
            failures.append(f"{name} {number} (seed {seed}), {moment}: {error}"[:2000])
    log(f"{name}: the last process ended after {scenario.slowest_end:.1f} s at most")
    return failures


def kill_at(scenario: Scenario, fraction: float, duration: Duration, *, from_middle: bool) -> Killed:
    """Kill the verb after a part of the time it takes; that becomes shorter if it ended before."""
    while True:
        scenario.clean()
        scenario.prepare()
        processes = Processes(scenario.lab, scenario.folder)
        begin = duration.middle if from_middle else 0.0
        killed = scenario.kill_after(Moment(fraction * (duration.seconds - begin), from_middle=from_middle))
        if scenario.leaves_nothing:
            scenario.slowest_end = max(scenario.slowest_end, processes.until_none_is_left())
        if killed is not None:
            return killed
        duration.seconds = begin + (duration.seconds - begin) * SHORTENED


def records_of(run: Path) -> Records:
    """Return the records of a run; all lines but an incomplete last one must be records."""
    path = run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    complete = [line for line in lines if line.endswith(b"\n")]
    assert len(lines) - len(complete) < 2
    records: list[dict[str, Any]] = [json.loads(line) for line in complete]
    return records


def log(words: str) -> None:
    sys.stderr.write(f"{words.rstrip()}\n")
