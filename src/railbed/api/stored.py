"""Stored runs: `railbed.runs()` lists them, `railbed.read_run()` returns one: its records as objects or columns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from railbed.model.cluster import Cluster
from railbed.model.record import Change, Event, Finding, Measurement, Record, Verdict
from railbed.store import (
    NEWEST,
    RunKind,
    RunSummary,
    Status,
    Store,
    find_run,
    list_runs,
    read_records,
    summary_of,
    to_line,
)
from railbed.store.find import cluster_to_read

R = TypeVar("R", Finding, Measurement, Change, Event)
COLUMNS = ("time", "name", "value", "unit", "source")
"""Of a table of measurements, before one for each label."""


@dataclass(frozen=True, slots=True)
class Run:
    """One use of a verb: how it ended when it was looked up, and all that it stored."""

    folder: Path
    summary: RunSummary
    """Also has its arguments, its version of railbed, and how many findings it has of each verdict."""

    @property
    def id(self) -> str:
        """Its name, such as `20260101-120000-check`."""
        return self.summary.id

    @property
    def verb(self) -> str:
        """The verb that was used."""
        return self.summary.verb

    @property
    def status(self) -> Status:
        """`running` or `waiting`, or how it ended: `done`, `failed`, `stopped`, `died`."""
        return self.summary.status

    @property
    def exit(self) -> int | None:
        """The exit code of the same command: 0 if all is well; None until the run has ended."""
        return self.summary.exit

    @property
    def cluster(self) -> Cluster:
        """The cluster as it was."""
        return cluster_to_read(self.folder)

    @property
    def failed(self) -> list[Finding]:
        """The findings that failed; nothing if there are none."""
        return [finding for finding in self.findings() if finding.verdict is Verdict.FAIL]

    def records(self) -> Iterator[Record]:
        """Return its records; those of a later version of railbed, and damaged ones, are left out."""
        return read_records(self.folder)

    def findings(self) -> list[Finding]:
        """Return its findings."""
        return self._all(Finding)

    def measurements(self, name: str = "") -> list[Measurement]:
        """Return its measurements, or those of a name."""
        return self._all(Measurement, name)

    def changes(self) -> list[Change]:
        """Return its changes."""
        return self._all(Change)

    def events(self) -> list[Event]:
        """Return its events."""
        return self._all(Event)

    def table(self, name: str = "") -> dict[str, list[str | int | float | None]]:
        """Return its measurements, or those of a name, as columns of equal length: `pandas.DataFrame(run.table())`.

        There is a column for each label; it is None where a measurement does not have it.
        """
        measurements = self.measurements(name)
        labels = sorted({label for measurement in measurements for label in measurement.labels} - set(COLUMNS))
        columns: dict[str, list[str | int | float | None]] = {
            column: [getattr(measurement, column) for measurement in measurements] for column in COLUMNS
        }
        for label in labels:
            columns[label] = [measurement.labels.get(label) for measurement in measurements]
        return columns

    def samples(self, interval: float = 1.0) -> Iterator[Measurement]:
        """Yield the samples of its devices as measurements: the mean of each interval and, if it differs, the highest.

        They are not among its records. Of a run in progress, those of complete intervals are yielded.
        """
        # Imported here because numpy is slow to load, and many runs have no samples.
        from railbed.store.timeline import Timeline
        from railbed.store.timeline.samples import SampledMeasurements

        yield from SampledMeasurements(Timeline(self.folder), interval).complete(all_of_it=self.status != "running")

    def _all(self, kind: type[R], name: str = "") -> list[R]:
        names = [name] if name else []
        return [record for record in read_records(self.folder, kind, names=names) if isinstance(record, kind)]


def runs(*, store: Store | None = None) -> list[Run]:
    """Return all runs of a folder, the newest first: of `runs` in this folder, or $RAILBED_RUNS."""
    folder = (store or Store()).folder
    return [Run(folder / summary.id, summary) for summary in list_runs(folder)]


def read_run(name: str | os.PathLike[str] = NEWEST, *, store: Store | None = None) -> Run:
    """Return a run: by its name, the path of its folder, or the newest."""
    folder = find_run(os.fspath(name), parent=(store or Store()).folder)
    return Run(folder, summary_of(folder))


def folder_of(run: Run | str | os.PathLike[str], kind: RunKind, store: Store | None) -> Path:
    """Return the folder of a run that a function got; `newest` is the newest of a kind."""
    if isinstance(run, Run):
        return run.folder
    return find_run(os.fspath(run), kind, (store or Store()).folder)


def to_json(record: Record) -> str:
    """Return a record as the line of JSON that `--json` prints and that a run stores."""
    return to_line(record).decode()
