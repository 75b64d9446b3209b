"""Events as marks, and long pauses: where PFC stopped a port for a considerable part of the time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from railbed.model.events import CheckpointSaved, GenerationFailed, GenerationStarted
from railbed.model.meters import SeriesKey
from railbed.model.record import Event
from railbed.store.series import Samples, SeriesReader, rates
from railbed.store.series.rates import by_time, interval, meter_of
from railbed.store.timeline.data import Mark, MarkKind

KINDS: Mapping[str, MarkKind] = {
    "lab_fault": "fault",
    "lab_healed": "notice",
    "generation": "notice",
    "bmc": "notice",
    "restart": "restart",
    "restart_checked": "notice",
    "node_lost": "lost",
    "node_cut": "lost",
    "node_out": "lost",
    "checkpoint": "checkpoint",
    "checkpoint_failed": "error",
    "caught_up": "notice",
    "shares": "notice",
    "sampling_gap": "gap",
    "sampling_resumed": "notice",
    "clock_jumped": "clock",
    "foreign_traffic": "traffic",
    "intrusion": "error",
    "error": "error",
    "notice": "notice",
}
"""Kind of the mark for an event, by the event's name; others are not marked."""


def marks_of(events: Iterable[Event]) -> list[Mark]:
    """Return the marks of events: one for a checkpoint that several nodes saved."""
    marks: list[Mark] = []
    saved: set[int] = set()
    for event in events:
        kind = KINDS.get(event.name)
        if kind is None:
            continue
        match event:
            case CheckpointSaved(step=step):
                if step in saved:
                    continue
                saved.add(step)
                marks.append(Mark(event.time, kind, "", f"checkpoint of step {step:,}"))
            case GenerationStarted(nodes=nodes):
                text = event.message or f"ranks started on {', '.join(nodes)}"
                marks.append(Mark(event.time, kind, "", text, event.generation))
                saved.clear()
            case _:
                text = event.message or event.name.replace("_", " ")
                ended = event.generation if isinstance(event, GenerationFailed) else None
                marks.append(Mark(event.time, kind, event.subject, text, ended))
    return marks


THRESHOLDS: Mapping[str, float] = {
    "pause_rx_us": 1e5,
    "pause_tx_us": 1e5,
    "switch_pause_rx_frames": 1000.0,
    "switch_pause_tx_frames": 1000.0,
}
"""Rate per second from which a pause is marked: a tenth of the time, or a thousand frames."""
APART = 5.0
"""Pauses that are closer together than this many seconds get one mark; of slowly sampled series, a little more."""
EVERY = 5.0
"""Seconds after which a live run is scanned again."""
LATE = 30.0
"""Samples of a device may be this much later than those of others."""
MINUTE = 60.0
MOST = 500


class _Pause(NamedTuple):
    """A time in which a series stayed above its threshold, with short interruptions."""

    begin: float
    end: float
    most: float
    series: SeriesKey
    apart: float
    """Seconds within which another one is the same."""


class PauseScanner:
    """Finds long pauses in the series of a run; later, only in what is new."""

    def __init__(self, reader: SeriesReader) -> None:
        self._reader = reader
        self._until = -inf
        self._pauses: dict[SeriesKey, list[_Pause]] = {}

    def marks(self, *, live: bool) -> list[Mark]:
        """Return a mark where each long pause begins; of a live run, the last seconds may not be scanned yet.

        Pauses of several ports and priorities of a device in the same direction get one mark: of the worst.
        """
        until = self._reader.bounds()[1]
        if until > self._until + (EVERY if live else 0.0):
            self._scan(until)
        by_device: dict[tuple[str, str], list[_Pause]] = {}
        for series, pauses in self._pauses.items():
            by_device.setdefault((series.device, series.meter), []).extend(pauses)
        return sorted(mark for pauses in by_device.values() for mark in _together(sorted(pauses)))[:MOST]

    def _scan(self, until: float) -> None:
        for series in self._reader.series():
            if series.meter in THRESHOLDS:
                for pause in self._pauses_of(series):
                    self._add(pause)
        self._until = until

    def _pauses_of(self, series: SeriesKey) -> list[_Pause]:
        start, end = self._until - LATE, inf
        if self._until == -inf:
            # Minutes without a pause, which are most, are not read.
            minutes = self._reader.rollup(series, "minute")
            busy = minutes.times[np.nan_to_num(minutes.high) >= THRESHOLDS[series.meter]]
            if not len(busy):
                return []
            start, end = float(busy[0]) - MINUTE, float(busy[-1]) + MINUTE
        return _pauses_in(series, self._reader.samples(series, start, end))

    def _add(self, pause: _Pause) -> None:
        """Add a pause, or the continuation of the last one."""
        known = self._pauses.setdefault(pause.series, [])
        if known and pause.begin <= known[-1].end + pause.apart:
            last = known.pop()
            pause = last._replace(end=max(last.end, pause.end), most=max(last.most, pause.most))
        known.append(pause)


def _pauses_in(series: SeriesKey, samples: Samples) -> list[_Pause]:
    values = samples.values
    if len(values) < 2 or values[0] == values[-1]:
        return []
    times, rate = by_time(samples.times, rates(meter_of(series.meter), samples))
    paused = np.flatnonzero(np.nan_to_num(rate) >= THRESHOLDS[series.meter])
    apart = max(APART, 2.5 * interval(times))
    episodes = np.split(paused, np.flatnonzero(np.diff(times[paused]) > apart) + 1) if len(paused) else []
    return [_Pause(float(times[at[0]]), float(times[at[-1]]), float(rate[at].max()), series, apart) for at in episodes]


def _together(pauses: Sequence[_Pause]) -> Iterator[Mark]:
    """Yield a mark for each group of pauses that begin at about the same time."""
    while pauses:
        group = [pause for pause in pauses if pause.begin <= pauses[0].begin + APART]
        worst = max(group, key=lambda pause: pause.most)
        others = len({pause.series for pause in group}) - 1
        yield _mark(worst._replace(begin=group[0].begin), others)
        pauses = pauses[len(group) :]


def _mark(pause: _Pause, others: int) -> Mark:
    series = pause.series
    place = f"{series.port} priority {series.part}" if series.part else series.port
    place += f" (and {others} more)" if others else ""
    amount = f"{pause.most / 1e4:.0f} % of the time" if series.meter.endswith("_us") else f"{pause.most:,.0f} frames/s"
    direction = "was paused by its neighbour" if "_rx_" in series.meter else "paused its neighbour"
    if series.meter.startswith("switch_"):
        direction = "received pause frames" if "_rx_" in series.meter else "sent pause frames"
    seconds = pause.end - pause.begin
    lasting = f" for {seconds:.0f} s" if seconds >= 1 else ""
    return Mark(pause.begin, "pause", series.device, f"{place} {direction}: up to {amount}{lasting}")
