"""Measure the store of time series with an hour of sixteen nodes, and SQLite with the same values.

    python -m tools.bench_series [--nodes 16] [--series 300] [--seconds 3600] [--busy 0.2] [--peer-seconds 360]

A share of the counters (`--busy`) are bytes at about 100 Gb/s, as many are packets, both with a spread of 20 %; the
others hardly ever count. The spread is noise, which no compression removes. Times are processor time.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from railbed.model.meters import METERS, Sample, SeriesKey
from railbed.store.series import SeriesReader, SeriesWriter, rates

T = TypeVar("T")
START = 1_800_000_000.0
BUSY = 12.5e9
PACKETS = 3e6
SPREAD = 0.2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--busy", type=float, default=0.2)
    parser.add_argument("--peer-seconds", type=int, default=360, help="SQLite gets this part, and is scaled up")
    arguments = parser.parse_args()
    traffic = Traffic(arguments.nodes, arguments.series, arguments.busy)
    busy = f"{arguments.busy:.0%} bytes, {arguments.busy:.0%} packets"
    print(f"{arguments.nodes} nodes × {arguments.series} counters ({busy}) × {arguments.seconds} s at 1 s")
    with tempfile.TemporaryDirectory() as folder:
        for name, span in (("rows only", 1e9), ("compressed by the minute", 60.0)):
            measure_ours(name, traffic, Path(folder, f"run{span:g}"), arguments.seconds, span)
        measure_sqlite(traffic, Path(folder, "peer.db"), arguments.peer_seconds, arguments.seconds)
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


class Traffic:
    """Makes the same samples every time."""

    def __init__(self, nodes: int, count: int, busy: float) -> None:
        names = [name for name, meter in METERS.items() if meter.kind == "counter" and meter.bits == 64]
        self.layouts = [
            tuple(
                SeriesKey(f"node{node}", names[index % len(names)], f"eth{index // len(names)}")
                for index in range(count)
            )
            for node in range(nodes)
        ]
        self.count = count
        self.busy = round(busy * count)

    def __len__(self) -> int:
        return len(self.layouts)

    def samples(self, seconds: int) -> Iterator[list[Sample]]:
        """Yield the samples of all nodes, second by second."""
        random = np.random.default_rng(17)
        totals = random.integers(0, 1 << 50, (len(self), self.count))
        mean = np.full(self.count, 0.001)
        mean[: self.busy], mean[self.busy : 2 * self.busy] = BUSY, PACKETS
        mean = random.permutation(mean)
        for second in range(seconds):
            noise = random.uniform(1 - SPREAD, 1 + SPREAD, totals.shape)
            rare = random.random(totals.shape) < mean
            totals += np.where(mean < 1, rare, mean * noise).astype(np.int64)
            yield [
                Sample(layout[0].device, START + second + 0.01 * node, layout, values)
                for node, (layout, values) in enumerate(zip(self.layouts, totals.tolist(), strict=True))
            ]


def measure_ours(name: str, traffic: Traffic, folder: Path, seconds: int, span: float) -> None:
    """Write all samples and read every series, twice, and the roll-ups."""
    folder.mkdir()
    writer, spent, longest = SeriesWriter(folder, chunk_seconds=span), 0.0, 0.0
    for samples in traffic.samples(seconds):
        for sample in samples:
            begin = time.process_time()
            writer.append(sample)
            took = time.process_time() - begin
            spent, longest = spent + took, max(longest, took)
    rows = seconds * len(traffic)
    print(f"{name}: {spent / rows * 1e3:.3f} ms CPU per row written, at most {longest * 1e3:.1f} ms")
    if span < seconds:
        writer.close()
    print(f"  {size_of(folder) / 1e6:.1f} MB, {size_of(folder) / rows / traffic.count:.2f} bytes per value")
    opening, reader = time_action(lambda: SeriesReader(folder))
    reading, _ = time_action(lambda: [reader.samples(series) for series in reader.series()])
    again, all_samples = time_action(lambda: [(series, reader.samples(series)) for series in reader.series()])
    converting, _ = time_action(lambda: [rates(METERS[series.meter], samples) for series, samples in all_samples])
    print(f"  CPU to read all series: {opening + reading:.2f} s (opening {opening:.2f} s), again {again:.2f} s")
    print(f"  CPU to turn all into rates: {converting:.2f} s")
    first, _ = time_action(lambda: SeriesReader(folder).samples(traffic.layouts[0][0]))
    rolled, _ = time_action(lambda: [SeriesReader(folder).rollup(series, "hour") for series in traffic.layouts[0][:10]])
    print(f"  CPU to open it and read one series: {first * 1e3:.0f} ms, its hours: {rolled * 100:.0f} ms")


def measure_sqlite(traffic: Traffic, path: Path, seconds: int, scale_to: int) -> None:
    """Do the same with a table of (series, time, value), one transaction a second, and an index to read a series."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=OFF")
    database.execute("CREATE TABLE sample (series INTEGER, time REAL, value INTEGER)")
    spent = 0.0
    for samples in traffic.samples(seconds):
        begin = time.process_time()
        for node, sample in enumerate(samples):
            first = node * traffic.count
            rows = [(first + index, sample.time, value) for index, value in enumerate(sample.values)]
            database.executemany("INSERT INTO sample VALUES (?, ?, ?)", rows)
        database.commit()
        spent += time.process_time() - begin
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    without_index = path.stat().st_size
    indexing, _ = time_action(lambda: database.execute("CREATE INDEX by_series ON sample (series, time)"))
    query = "SELECT time, value FROM sample WHERE series = ? ORDER BY time"
    reading, _ = time_action(
        lambda: [np.array(database.execute(query, (n,)).fetchall()) for n in range(len(traffic) * traffic.count)]
    )
    database.close()
    factor = scale_to / seconds
    print(
        f"sqlite3 {sqlite3.sqlite_version}, from {seconds} s: {spent / seconds / len(traffic) * 1e3:.3f} ms CPU per row"
    )
    print(f"  {without_index * factor / 1e6:.0f} MB, with an index {path.stat().st_size * factor / 1e6:.0f} MB")
    print(f"  CPU to read all series: {reading * factor:.1f} s, after {indexing * factor:.1f} s for the index")


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def time_action(action: Callable[[], T]) -> tuple[float, T]:
    """Return the processor time of an action, and its result."""
    begin = time.process_time()
    result = action()
    return time.process_time() - begin, result


if __name__ == "__main__":
    main()
