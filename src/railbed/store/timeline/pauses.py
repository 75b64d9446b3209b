"""Long pauses as marks: where PFC stopped a port for a considerable part of the time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from railbed.model.series import Series
from railbed.store.series import SeriesReader, rates
from railbed.store.series.data import meter_of
from railbed.store.timeline.data import Mark

THRESHOLDS: Mapping[str, float] = {
    "pause_rx_us": 1e5,
    "pause_tx_us": 1e5,
    "switch_pause_rx_frames": 1000.0,
    "switch_pause_tx_frames": 1000.0,
}
"""Rate per second from which a pause is marked: a tenth of the time, or a thousand frames."""
APART = 5.0
"""Pauses that are closer together than this many seconds get one mark."""
MINUTE = 60.0
MOST = 500


class _Pause(NamedTuple):
    """A time in which a series stayed above its threshold, with short interruptions."""

    begin: float
    end: float
    most: float
    series: Series


def pause_marks(reader: SeriesReader) -> list[Mark]:
    """Return a mark where each long pause begins; minutes without any are not read.

    Pauses of several ports and priorities of a device in the same direction get one mark: of the worst.
    """
    pauses: dict[tuple[str, str], list[_Pause]] = {}
    for series in reader.series():
        if series.meter in THRESHOLDS:
            pauses.setdefault((series.device, series.meter), []).extend(_pauses_of(reader, series))
    return sorted(mark for of_device in pauses.values() for mark in _together(sorted(of_device)))[:MOST]


def _together(pauses: Sequence[_Pause]) -> Iterator[Mark]:
    """Yield a mark for each group of pauses that begin at about the same time."""
    while pauses:
        group = [pause for pause in pauses if pause.begin <= pauses[0].begin + APART]
        worst = max(group, key=lambda pause: pause.most)
        others = len({pause.series for pause in group}) - 1
        yield _mark(worst._replace(begin=group[0].begin), others)
        pauses = pauses[len(group) :]


def _pauses_of(reader: SeriesReader, series: Series) -> list[_Pause]:
    threshold = THRESHOLDS[series.meter]
    minutes = reader.rollup(series, "minute")
    busy = minutes.times[np.nan_to_num(minutes.high) >= threshold]
    if not len(busy):
        return []
    samples = reader.samples(series, float(busy[0]) - MINUTE, float(busy[-1]) + MINUTE)
    rate = rates(meter_of(series.meter), samples)
    paused = np.flatnonzero(np.nan_to_num(rate) >= threshold)
    episodes = np.split(paused, np.flatnonzero(np.diff(samples.times[paused]) > APART) + 1) if len(paused) else []
    times = samples.times
    return [_Pause(float(times[at[0]]), float(times[at[-1]]), float(rate[at].max()), series) for at in episodes]


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
