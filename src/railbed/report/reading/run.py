"""The data of a report: a run's folder, read once. Unreadable records are counted, never fatal.

Flows of a capture become measurements: a table of numbers for other programs. Times of records are put on a clock that
only goes forward, also if the machine's was set back during the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from railbed.errors import UsageError
from railbed.model.events import Flow, FlowRates, GenerationStarted
from railbed.model.meters import is_of_state
from railbed.model.private import scrub
from railbed.model.record import Change, Event, Finding, Measurement, Record
from railbed.model.regular import read_regular
from railbed.report.reading.series import MeasuringRank, StepSeries
from railbed.store import RecordReader, RunSummary, read_records, read_run_in, record_lines
from railbed.store.run import CLUSTER, RECORDS, SERIES

if TYPE_CHECKING:
    from railbed.store.timeline import Timeline

LEAST_SECONDS = 1.0
"""A smaller step back is the order in which records were stored."""


class ForwardClock:
    """Corrects times in the order in which they were recorded."""

    def __init__(self, start: float) -> None:
        self._last = start
        self._is_set = False
        self.set_back = 0.0
        """By how many seconds the clock was set back, at least: how long it was until the next record is not known."""

    def correct(self, time: float) -> float:
        """Return a time, later by as much as the clock was set back before."""
        time += self.set_back
        if not isfinite(time):
            return self._last
        if self._is_set:
            if self._last - time >= LEAST_SECONDS:
                self.set_back += self._last - time
            time = max(self._last, time)
        self._last, self._is_set = time, True
        return time


COUNTS = {
    "flow_packets": ("packets", "1"),
    "flow_bytes": ("bytes", "byte"),
    "flow_payload_bytes": ("payload_bytes", "byte"),
    "flow_lost_packets": ("lost", "1"),
    "flow_resent_packets": ("resent", "1"),
    "flow_cnp_packets": ("notifications", "1"),
}
CE = "flow_ce_packets"
RATES = {
    "flow_bytes_per_second": ("bytes_per_second", "byte/s"),
    "flow_interval_packets": ("packets", "1"),
    "flow_interval_ce_packets": ("ce", "1"),
    "flow_interval_cnp_packets": ("notifications", "1"),
}
"""By name: the field of the event, and its unit."""


def flow_measurements(event: Flow | FlowRates) -> Iterator[Measurement]:
    """Yield the counts of a flow, at its end, or what it did in each interval, at the beginning of that."""
    labels: dict[str, str | int] = {"flow": event.id, "path": event.subject}
    if isinstance(event, Flow):
        labels["qp"] = event.qp
        counts = {name: (getattr(event, attribute), unit) for name, (attribute, unit) in COUNTS.items()}
        counts[CE] = (event.ecn_arrived or event.ecn).get("ce", 0), "1"
        for name, (value, unit) in counts.items():
            yield Measurement(name=name, value=_number(value), unit=unit, labels=labels, time=event.ended)
        return
    for name, (attribute, unit) in RATES.items():
        for place, value in enumerate(getattr(event, attribute)):
            time = event.start + place * event.width
            yield Measurement(name=name, value=_number(value), unit=unit, labels=labels, time=time)


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer in a damaged record
        return inf


E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """The content of a run's folder."""

    summary: RunSummary
    cluster_text: str = ""
    findings: Sequence[Finding] = ()
    at_restarts: Sequence[Finding] = ()
    """What checks at the moment of a restart found to be worse than before the launch."""
    verdicts: Sequence[Finding] | None = None
    """What `diagnose` concluded; None if the run has no time series."""
    changes: Sequence[Change] = ()
    events: Sequence[Event] = ()
    series: Mapping[str, StepSeries] = field(default_factory=dict)
    """Measurements with a step, by name."""
    measurements: Sequence[Measurement] = ()
    """All others."""
    unreadable: int = 0
    """Records that are damaged, or unknown to this version."""
    last_time: float | None = None
    """When the last record was made."""
    set_back: float = 0.0
    """By how many seconds the clock was set back during the run. Times of events are corrected: none is before another
    that was recorded earlier."""
    timeline: Timeline | None = None
    """The run on one time axis; None if nothing was sampled, or if only its records are needed."""

    def of(self, *kinds: type[E]) -> list[E]:
        """Return the events of these kinds, in their order."""
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def seconds(self) -> float | None:
        """How long the run took; until its last record if it did not end normally."""
        return None if self.end is None else max(0.0, self.end - self.summary.started)

    @property
    def end(self) -> float | None:
        """When the run ended; its last record if it did not end normally."""
        ended = self.summary.ended
        return self.last_time if ended is None or ended < self.summary.started else ended


@dataclass(slots=True)
class _RunReader:
    """Takes records one by one, so that a long run needs little memory."""

    clock: ForwardClock
    findings: list[Finding] = field(default_factory=list)
    at_restarts: list[Finding] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    series: dict[str, StepSeries] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    last_time: float | None = None
    _generation: int = 0
    _begins: dict[int, int] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        if isinstance(record, Measurement):
            self._take_measurement(record)
            return
        self.last_time = self.clock.correct(record.time)  # measurements have the times of nodes
        record = replace(record, time=self.last_time)
        match record:
            case Finding(generation=None):
                self.findings.append(record)
            case Finding():
                self.at_restarts.append(record)
            case Change():
                self.changes.append(record)
            case Event():
                self._generation += isinstance(record, GenerationStarted)
                self.events.append(record)

    def _take_measurement(self, record: Measurement) -> None:
        step = record.labels.get("step")
        if not isinstance(step, int):
            self.measurements.append(record)
            return
        rank, node = record.labels.get("rank", 0), record.labels.get("node", "")
        series = self.series.get(record.name)
        if series is None:
            series = StepSeries(record.unit, record.source == "simulated", self._begins, is_of_state(record.name))
            self.series[record.name] = series
        source = MeasuringRank(rank if isinstance(rank, int) else 0, str(node))
        if abs(step) < 1 << 62:
            series.add(step, record.value, source, self._generation)


def read(folder: Path) -> RunData:
    """Read a run's folder."""
    summary = read_run_in(folder)
    if summary is None:
        raise UsageError(f"{folder} is not a run", hint="`railbed runs` lists runs")
    lines, reader = RecordReader(), _RunReader(ForwardClock(summary.started))
    try:
        for line in record_lines(folder):
            if (record := lines.read(line)) is not None:
                reader.take(record)
    except FileNotFoundError:
        pass  # a run that died before its first record
    except OSError as error:
        raise UsageError(f"the records of {folder} cannot be read: {error.strerror}") from error
    return RunData(
        summary=summary,
        cluster_text=_cluster_text(folder),
        findings=reader.findings,
        at_restarts=reader.at_restarts,
        changes=reader.changes,
        events=reader.events,
        series=reader.series,
        measurements=reader.measurements,
        unreadable=lines.unreadable,
        last_time=reader.last_time,
        set_back=reader.clock.set_back,
    )


def with_timeline(run: RunData, folder: Path) -> RunData:
    """Return a run's data with its series, if it has any."""
    if not (folder / SERIES).is_dir():
        return run
    from railbed.store.timeline import Timeline  # numpy is slow to load, and many runs have no samples

    return replace(run, timeline=Timeline(folder))


def measurements_in(folder: Path) -> Iterator[Measurement]:
    """Yield every measurement of a run as recorded, including those of repeated steps, and the numbers of flows."""
    if not (folder / RECORDS).exists():
        return  # a run that died before its first record
    for record in read_records(folder, Measurement, Flow, FlowRates):
        if isinstance(record, Measurement):
            yield record
        elif isinstance(record, Flow | FlowRates):
            yield from flow_measurements(record)


def _cluster_text(folder: Path) -> str:
    try:
        return scrub(read_regular(folder / CLUSTER)).decode("utf-8", "replace")
    except OSError:
        return ""
