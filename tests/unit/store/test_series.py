"""The store of time series: what is written is read, while it is written, afterwards and damaged."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railbed.errors import UsageError
from railbed.fleet.sample.intake import Intake
from railbed.model.events import SamplingGap
from railbed.model.meters import METERS, MISSING, Sample, SeriesKey
from railbed.model.record import Event
from railbed.store.series import Samples, SeriesReader, SeriesWriter, rates

RX = SeriesKey("node1", "net_rx_bytes", "eth1")
TX = SeriesKey("node1", "net_tx_bytes", "eth1")
MEMORY = SeriesKey("node1", "memory_used_bytes")
LAYOUT = (RX, TX, MEMORY)
START = 1_800_000_000.0

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)


def write(folder: Path, rows: Sequence[tuple[float, Sequence[int]]], layout: tuple[SeriesKey, ...] = LAYOUT) -> None:
    with SeriesWriter(folder) as writer:
        for time, values in rows:
            writer.append(Sample(layout[0].device, time, layout, values))


def growing(count: int, seconds: float = 1.0) -> list[tuple[float, list[int]]]:
    return [(START + index * seconds, [index * 1000, index * 10**10, 500 + index % 7]) for index in range(count)]


def assert_reads(reader: SeriesReader, rows: Sequence[tuple[float, Sequence[int]]]) -> None:
    for column, series in enumerate(LAYOUT):
        samples = reader.samples(series)
        assert samples.times.tolist() == [time for time, _ in rows]
        assert samples.values.tolist() == [values[column] for _, values in rows]


@pytest.mark.parametrize("count", [1, 59, 60, 61, 200, 4000])
def test_rows_come_back(tmp_path: Path, count: int) -> None:
    write(tmp_path, growing(count))
    reader = SeriesReader(tmp_path)
    assert list(reader.series()) == list(LAYOUT)
    assert_reads(reader, growing(count))
    assert reader.damaged == 0
    assert not list((tmp_path / "series").glob("*.rows"))


def test_a_reader_follows_the_writer(tmp_path: Path) -> None:
    rows = growing(200)
    with SeriesWriter(tmp_path) as writer:
        reader = SeriesReader(tmp_path)
        assert not reader.refresh()
        for index, (time, values) in enumerate(rows):
            writer.append(Sample("node1", time, LAYOUT, values))
            assert reader.refresh()
            assert not reader.refresh()
            if index % 17 == 0:
                assert_reads(reader, rows[: index + 1])
                assert_reads(SeriesReader(tmp_path), rows[: index + 1])
    assert reader.refresh()
    assert_reads(reader, rows)


def test_between_two_times(tmp_path: Path) -> None:
    write(tmp_path, growing(300))
    samples = SeriesReader(tmp_path).samples(RX, START + 100, START + 110)
    assert samples.times.tolist() == [START + second for second in range(100, 111)]
    assert samples.values.tolist() == [second * 1000 for second in range(100, 111)]


def test_a_changed_list_of_series_begins_a_new_table(tmp_path: Path) -> None:
    fewer = (TX,)
    with SeriesWriter(tmp_path) as writer:
        for index in range(90):
            layout = LAYOUT if index // 30 % 2 == 0 else fewer
            writer.append(Sample("node1", START + index, layout, [index] * len(layout)))
    reader = SeriesReader(tmp_path)
    assert reader.samples(TX).values.tolist() == list(range(90))
    assert reader.samples(RX).values.tolist() == [*range(30), *range(60, 90)]
    assert len(list((tmp_path / "series").glob("*.layout"))) == 2


def test_a_second_writer_adds_to_the_folder(tmp_path: Path) -> None:
    write(tmp_path, growing(90))
    write(tmp_path, [(time + 1000, values) for time, values in growing(90)])
    assert len(SeriesReader(tmp_path).samples(RX).times) == 180


def test_files_are_private_and_links_are_not_followed(tmp_path: Path) -> None:
    with SeriesWriter(tmp_path) as writer:
        for time, values in growing(70):
            writer.append(Sample("node1", time, LAYOUT, values))
        files = list((tmp_path / "series").iterdir())
        assert {path.suffix for path in files} == {".layout", ".rows", ".chunks"}
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (tmp_path / "series").stat().st_mode & 0o777 == 0o700
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "series").rename(elsewhere)
    (tmp_path / "series").symlink_to(elsewhere)
    assert SeriesReader(tmp_path).series() == []
    with pytest.raises(UsageError, match="it is a link"):
        SeriesWriter(tmp_path)


def test_a_run_without_samples(tmp_path: Path) -> None:
    reader = SeriesReader(tmp_path)
    assert reader.series() == []
    assert len(reader.samples(RX).times) == 0
    assert len(reader.rollup(RX, "hour").times) == 0


def test_counters_beyond_63_bits_and_wrong_values(tmp_path: Path) -> None:
    write(tmp_path, [(START, [(1 << 64) - 1, 1 << 63, -1])])
    reader = SeriesReader(tmp_path)
    assert [reader.samples(series).values.tolist() for series in LAYOUT] == [[-1], [MISSING], [-1]]
    with SeriesWriter(tmp_path) as writer, pytest.raises(ValueError, match="2 values for 3 series"):
        writer.append(Sample("node1", START, LAYOUT, [1, 2]))


@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(START, START + 600), st.tuples(INTEGERS, INTEGERS, INTEGERS)), min_size=1, max_size=40
    )
)
def test_any_values_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, tuple[int, int, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    write(folder, rows)
    assert_reads(SeriesReader(folder), rows)


def test_a_clock_that_is_set_back_gives_no_spike(tmp_path: Path) -> None:
    """Times overlap then, but counters do not jump up and down between the samples before and after."""
    rows = [(time - (90.5 if index >= 200 else 0.0), values) for index, (time, values) in enumerate(growing(300))]
    with SeriesWriter(tmp_path) as writer:
        for time, values in rows:
            writer.append(Sample("node1", time, LAYOUT, values))
        reader = SeriesReader(tmp_path)
    assert_reads(reader, rows)
    for start in (START, START + 150, START + 199):
        result = rates(COUNTER, reader.samples(RX, start, START + 208))
        assert np.isnan(result).sum() == 2
        np.testing.assert_allclose(result[~np.isnan(result)], 1000.0)
    minutes = reader.rollup(RX, "minute")
    np.testing.assert_allclose((minutes.low, minutes.high), 1000.0)


@pytest.mark.parametrize("back", [1.5, 20.5, 90.5])
@pytest.mark.parametrize("changes", [(200,), (190, 210), (150, 200, 201, 260)])
def test_a_clock_that_is_set_back_while_the_series_of_a_device_change(
    tmp_path: Path, back: float, changes: tuple[int, ...]
) -> None:
    rows = [(time - (back if index >= 200 else 0.0), values) for index, (time, values) in enumerate(growing(300))]
    with SeriesWriter(tmp_path) as writer:
        reader = SeriesReader(tmp_path)
        for index, (time, values) in enumerate(rows):
            count = 2 if sum(index >= change for change in changes) % 2 else 3
            writer.append(Sample("node1", time, LAYOUT[:count], values[:count]))
        reader.refresh()
        assert reader.samples(RX).times.tolist() == [time for time, _ in rows]
    for following in (True, False):
        reader = reader if following else SeriesReader(tmp_path)
        reader.refresh()
        samples = reader.samples(RX)
        assert samples.times.tolist() == [time for time, _ in rows]
        assert samples.values.tolist() == [values[0] for _, values in rows]
        for start, end in ((START, START + 400), (START + 150, START + 205), (START + 195, START + 300)):
            result = rates(COUNTER, reader.samples(RX, start, end))
            np.testing.assert_allclose(result[~np.isnan(result)], 1000.0, rtol=1e-6)
        minutes = reader.rollup(RX, "minute")
        np.testing.assert_allclose((minutes.low, minutes.high), 1000.0)


def test_a_full_disk_is_explained_and_writing_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = growing(150)
    real, real_close = os.pwrite, os.close
    full = [False]

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if not full[0]:
            return real(descriptor, data, offset)
        if len(data) < 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: len(data) // 2], offset)

    def close(descriptor: int) -> None:
        real_close(descriptor)
        if full[0]:  # as on a file server, which may report a full disk only now
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr(os, "close", close)
    stored = []
    with SeriesWriter(tmp_path) as writer:
        for index, (time, values) in enumerate(rows):
            full[0] = 50 <= index < 65 or 119 <= index < 122
            if full[0]:
                with pytest.raises(UsageError, match=r"cannot store the samples in .*: the disk is full"):
                    writer.append(Sample("node1", time, LAYOUT, values))
            else:
                writer.append(Sample("node1", time, LAYOUT, values))
                stored.append((time, values))
            full[0] = False
            assert_reads(SeriesReader(tmp_path), stored)
        full[0] = True
    full[0] = False
    assert_reads(SeriesReader(tmp_path), stored)


def test_rollups(tmp_path: Path) -> None:
    rows = growing(3 * 3600, 1.0)
    write(tmp_path, rows)
    reader = SeriesReader(tmp_path)
    minutes = reader.rollup(RX, "minute")
    assert len(minutes.times) == 180
    np.testing.assert_allclose(minutes.mean, 1000.0)
    hours = reader.rollup(MEMORY, "hour")
    assert (hours.times == START + 3600 * np.arange(3)).all()
    assert hours.low.tolist() == [500.0] * 3
    assert hours.high.tolist() == [506.0] * 3
    np.testing.assert_allclose(hours.mean, 503, rtol=1e-3)
    assert len(reader.rollup(MEMORY, "day").times) == 1


def test_rollups_of_hours_are_the_same_from_minutes(tmp_path: Path) -> None:
    rows = [(time, [total, MISSING, total % 1000]) for time, (total, _, _) in growing(700, 20.0)]
    write(tmp_path, rows)
    with_hours = [SeriesReader(tmp_path).rollup(series, "hour") for series in LAYOUT]
    (path,) = (tmp_path / "series").glob("*.hours")
    assert path.stat().st_size == 3 * 8 * (2 + 3 + 5)
    path.unlink()
    for series, hours in zip(LAYOUT, with_hours, strict=True):
        assert len(hours.times) == 4
        for stored, computed in zip(hours, SeriesReader(tmp_path).rollup(series, "hour"), strict=True):
            np.testing.assert_allclose(stored, computed, rtol=1e-6)


def test_rollups_of_a_minute_that_is_being_written(tmp_path: Path) -> None:
    with SeriesWriter(tmp_path) as writer:
        for time, values in growing(90):
            writer.append(Sample("node1", time, LAYOUT, values))
        minutes = SeriesReader(tmp_path).rollup(RX, "minute")
    assert minutes.times.tolist() == [START, START + 60]
    np.testing.assert_allclose((minutes.low, minutes.high, minutes.mean), 1000.0)


def damage(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    if rng.random() < 0.3:
        return data[:place]
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


@pytest.mark.parametrize(("pattern", "interval"), [("*.rows", 1), ("*.chunks", 1), ("*.layout", 1), ("*.hours", 300)])
def test_damaged_files_never_give_wrong_values(tmp_path: Path, pattern: str, interval: int) -> None:
    rows = growing(150 if interval == 1 else 25, interval)
    writer = SeriesWriter(tmp_path)
    for time, values in rows:
        writer.append(Sample("node1", time, LAYOUT, values))
    expected = dict(rows)
    rng = random.Random(17)  # noqa: S311  (the same damage every time)
    (path,) = (tmp_path / "series").glob(pattern)
    original = path.read_bytes()
    for _ in range(100):
        path.write_bytes(damage(original, rng))
        reader = SeriesReader(tmp_path)
        for column, series in enumerate(LAYOUT):
            samples = reader.samples(series)
            low = reader.rollup(series, "hour").low
            usual = (1000 / interval, 1e10 / interval, 503)[column]
            np.testing.assert_allclose(low[~np.isnan(low)], usual, rtol=1e-2)
            for time, value in zip(samples.times.tolist(), samples.values.tolist(), strict=True):
                assert value in (expected[time][column], MISSING)
    path.write_bytes(original)
    writer.close()


def test_a_damaged_chunk_or_row_leaves_the_others(tmp_path: Path) -> None:
    writer = SeriesWriter(tmp_path)
    rows = growing(150)
    for time, values in rows:
        writer.append(Sample("node1", time, LAYOUT, values))
    for name, place in (("0001.chunks", 9), ("0001-000003.rows", 50)):
        path = tmp_path / "series" / name
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
    reader = SeriesReader(tmp_path)
    assert_reads(reader, [*rows[60:121], *rows[122:]])
    assert reader.damaged == 2
    writer.close()


COUNTER = METERS["net_rx_bytes"]
NARROW = METERS["qdisc_drops"]


def rates_of(values: Sequence[int], times: Sequence[float] | None = None, *, narrow: bool = False) -> list[float]:
    at = np.array(times if times is not None else range(len(values)), float)
    return list(map(float, rates(NARROW if narrow else COUNTER, Samples(at, np.array(values, np.int64)))))


def assert_rates(actual: list[float], *expected: float | None) -> None:
    np.testing.assert_array_equal(actual, [np.nan if value is None else value for value in expected])


def test_rates() -> None:
    assert_rates(rates_of([]))
    assert_rates(rates_of([5]), None)
    assert_rates(rates_of([0, 10, 40], [0, 1, 3]), None, 10, 15)


def test_a_32_bit_counter_wraps() -> None:
    top = 1 << 32
    assert_rates(rates_of([top - 30, top - 20, top - 10, 0, 10], narrow=True), None, 10, 10, 10, 10)
    assert_rates(rates_of([top - 5, 5], narrow=True), None, 10)


def test_a_counter_that_restarts_gives_no_spike() -> None:
    assert_rates(rates_of([1000, 1010, 0, 10], narrow=True), None, 10, None, 10)
    assert_rates(rates_of([4_000_000_000, 4_000_000_010, 3, 13], narrow=True), None, 10, None, 10)
    assert_rates(rates_of([10**15, 10**15 + 10, 3, 13]), None, 10, None, 10)


def test_gaps_and_missing_values() -> None:
    assert_rates(rates_of([0, 1, 2, 10, 11], [0, 1, 2, 10, 11]), None, 1, 1, None, 1)
    assert_rates(rates_of([0, 1, 2, 5, 6], [0, 1, 2, 5, 6]), None, 1, 1, 1, 1)
    assert_rates(rates_of([0, MISSING, 2, 3, 4]), None, None, 1, 1, 1)
    assert_rates(rates_of([0, 1, 2, 3], [0, 1, 1, 2]), None, 1, None, 1)


@given(
    steps=st.lists(st.integers(0, 1 << 29), min_size=2, max_size=40),
    first=st.integers(0, (1 << 32) - 1),
)
def test_wrapping_changes_no_rate(steps: list[int], first: int) -> None:
    straight = np.cumsum([first, *steps])
    wrapped = rates_of([int(value) % (1 << 32) for value in straight], narrow=True)
    for rate, step in zip(wrapped[1:], steps, strict=True):
        assert rate == step or np.isnan(rate)
    certain = [rate for rate in wrapped if not np.isnan(rate)]
    assert len(certain) >= len(steps) - sum(steps) // (1 << 32) - 1


@given(
    steps=st.lists(st.integers(0, 1000), min_size=4, max_size=30),
    first=st.integers(0, (1 << 32) - 1),
    reset=st.tuples(st.integers(2, 29), st.integers(0, 1000)),
    narrow=st.booleans(),
)
def test_a_reset_is_never_a_spike(steps: list[int], first: int, reset: tuple[int, int], narrow: bool) -> None:
    place, restarted = min(reset[0], len(steps) - 1), reset[1]
    before, after = np.cumsum([first, *steps[:place]]), np.cumsum([restarted, *steps[place:]])
    values = [int(value) % (1 << 32) for value in np.concatenate((before, after))]
    result = np.array(rates_of(values, narrow=narrow))
    assert not (result > 2 * max(1000, *steps)).any()


@given(values=st.lists(INTEGERS, max_size=30), narrow=st.booleans())
def test_rates_are_never_negative_or_infinite(values: list[int], narrow: bool) -> None:
    result = np.array(rates_of(values, narrow=narrow))
    assert ((result >= 0) & np.isfinite(result) | np.isnan(result)).all()


def test_a_full_disk_is_a_gap_in_the_samples_not_the_end_of_a_run() -> None:
    def full(_: Sample) -> None:
        raise UsageError("cannot store the samples in runs/x/series: the disk is full")

    emitted: list[Event] = []
    intake = Intake("node1", full, emitted.append)
    for second in range(3):
        assert not intake.add(Sample("node1", START + second, LAYOUT, (1, 2, 3)), lambda: SamplingGap(why=""))
    (gap,) = emitted
    assert gap.message == "no samples: cannot store the samples in runs/x/series: the disk is full"
