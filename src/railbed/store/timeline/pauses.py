"""Long pauses as marks: where PFC stopped a port for a considerable part of the time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from railbed.model.series import Series
from railbed.store.series import SeriesReader, rates
from railbed.store.series.data import Floats, meter_of
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


def pause_marks(reader: SeriesReader) -> list[Mark]:
    """Return a mark where each long pause begins; minutes without any are not read."""
    marks: list[Mark] = []
    for series in reader.series():
        if series.meter in THRESHOLDS and len(marks) < MOST:
            marks += _marks_of(reader, series)
    return sorted(marks)[:MOST]


def _marks_of(reader: SeriesReader, series: Series) -> list[Mark]:
    threshold = THRESHOLDS[series.meter]
    minutes = reader.rollup(series, "minute")
    busy = minutes.times[np.nan_to_num(minutes.high) >= threshold]
    if not len(busy):
        return []
    meter = meter_of(series.meter)
    samples = reader.samples(series, float(busy[0]) - MINUTE, float(busy[-1]) + MINUTE)
    rate = rates(meter, samples)
    paused = np.flatnonzero(np.nan_to_num(rate) >= threshold)
    episodes = np.split(paused, np.flatnonzero(np.diff(samples.times[paused]) > APART) + 1) if len(paused) else []
    return [_mark(series, samples.times[episode], rate[episode]) for episode in episodes]


def _mark(series: Series, times: Floats, rate: Floats) -> Mark:
    place = f"{series.port} priority {series.part}" if series.part else series.port
    most = float(rate.max())
    amount = f"{most / 1e4:.0f} % of the time" if series.meter.endswith("_us") else f"{most:,.0f} frames/s"
    direction = "was paused by its neighbour" if "_rx_" in series.meter else "paused its neighbour"
    if series.meter.startswith("switch_"):
        direction = "received pause frames" if "_rx_" in series.meter else "sent pause frames"
    seconds = float(times[-1] - times[0])
    lasting = f" for {seconds:.0f} s" if seconds >= 1 else ""
    return Mark(float(times[0]), "pause", series.device, f"{place} {direction}: up to {amount}{lasting}")
