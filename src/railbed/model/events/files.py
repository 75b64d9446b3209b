"""Events about runs, their files and pages: background runs, export, report, compare, runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached(Event):
    """A run continues in the background."""

    name: ClassVar = "detached"
    run: str
    folder: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(Event):
    """A run is in Slurm's queue, as a job."""

    name: ClassVar = "submitted"
    run: str
    folder: str
    job: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Event):
    """A run was stopped, or had ended before."""

    name: ClassVar = "stopped"
    was: str
    status: str
    exit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsFetched(Event):
    """The weights of a run are in a folder on this machine."""

    name: ClassVar = "weights"
    folder: str
    node: str
    step: int
    bytes: int
    finished: bool
    form: str | None = None
    """`weights`, `adapter`, `merged` or `gguf`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesCopied(Event):
    """A node has received a large set of files, such as a model, completely, and verified it.

    `source` is the node that passed it on and `rail` the way it took; both are missing if it came from the machine that
    started the run. `continued` is how many bytes an earlier, interrupted copy had left there.
    """

    name: ClassVar = "files_copied"
    bytes: int
    seconds: float
    continued: int = 0
    source: str | None = None
    rail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWritten(Event):
    """A report is written to a file."""

    name: ClassVar = "report"
    file: str
    format: str
    verdict: str
    sections: Sequence[str]
    figures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonWritten(Event):
    """A page about two runs is written to a file."""

    name: ClassVar = "compare"
    file: str
    verdict: str
    sections: Sequence[str]
    figures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover(Event):
    """A file or folder that a run left behind and that can be removed."""

    name: ClassVar = "leftover"
    run: str | None = None
    bytes: int
    status: str | None = None
    node: str | None = None
    used: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained(Event):
    """A file or folder that is not removed; the message is the reason."""

    name: ClassVar = "retained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed(Event):
    """A file or folder that was removed."""

    name: ClassVar = "removed"
    bytes: int
