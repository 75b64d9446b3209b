"""What the hand-over page is made from, and the page: its sections are in `sections/`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from railbed.model.cluster import Cluster
from railbed.model.record import Event
from railbed.present.wording import DEFAULT_CLUSTER, add_cluster, moment
from railbed.report.document import TONE_WORDS, Report, sections_in, write_sections
from railbed.report.handover import sections
from railbed.report.reading.run import RunData
from railbed.store import RunSummary

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureOfBaseline:
    """A measure of the baseline."""

    measure: str
    middle: float
    spread: float
    count: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBaseline:
    """The baseline beside the cluster file."""

    file: Path
    run: str
    saved: float
    figures: Sequence[FigureOfBaseline]


@dataclass(frozen=True, slots=True, kw_only=True)
class BestFigure:
    """The best value of a measure in all runs that were looked at."""

    what: str
    size: int | None
    measure: str
    value: float
    unit: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverData:
    """A cluster, what is known about its devices, and what was done with it."""

    cluster: Cluster
    file: Path | None
    """Its cluster file; None for this machine, and for a recording."""
    made: float
    """When the page is written."""
    inventory: Sequence[Event]
    """Records of `inventory`."""
    check: RunData | None
    """The newest check of the whole cluster, or the judgement of a recording; None if there is none."""
    recording: Path | None = None
    """What facts and findings are from; None for those of stored runs."""
    runs: Sequence[RunSummary] = ()
    """The runs of this cluster, the newest first."""
    foreign: frozenset[str] = frozenset()
    """Names of the runs that this user did not make."""
    runs_folder: Path
    baseline: SavedBaseline | None = None
    best: Sequence[BestFigure] = ()
    notes_file: Path | None = None
    """Where notes are written; None without a cluster file."""
    notes: str = ""
    """What people wrote; empty if there is no such file, or only its template."""

    def of(self, kind: type[E]) -> list[E]:
        """Return the records of the inventory of a kind."""
        return [record for record in self.inventory if isinstance(record, kind)]

    def with_file(self, text: str) -> str:
        """Return a text with the cluster file added to its commands."""
        return add_cluster(text, self.file)

    def run_name(self, run: str) -> str:
        """Return the name of a run, marked if this user did not make it."""
        return f"{run} (of another user)" if run in self.foreign else run

    @property
    def again(self) -> str:
        """The command that writes this page again."""
        words = ["railbed", "report", "--cluster"]
        if self.file is not None and (self.file != DEFAULT_CLUSTER or self.recording is not None):
            words.append(str(self.file))
        if self.recording is not None:
            words += ["--replay", str(self.recording)]
        return shlex.join(words)


def describe_cluster(data: HandoverData) -> Report:
    """Return the hand-over page."""
    verdict, parts = write_sections(sections_in(sections), data)
    return Report(
        title=data.cluster.name,
        over=f"railbed: cluster {data.cluster.name}, {moment(data.made)}",
        verdict=verdict,
        tone_word=TONE_WORDS[verdict.tone],
        parts=parts,
    )


def distinct(values: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the names by value, without those that have none."""
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        if value:
            names.setdefault(value, []).append(name)
    return names
