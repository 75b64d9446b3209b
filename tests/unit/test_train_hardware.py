"""The speed of a processor, which MFU refers to: measured within a moment on any of them."""

from __future__ import annotations

import pytest

from railbed.train.worker import hardware


@pytest.mark.parametrize(
    ("speed", "measured"),
    [(1e8, [96]), (1e9, [96, 192]), (1e11, list(hardware.PROBE_SIZES))],
    ids=["emulated", "slow", "usual"],
)
def test_products_that_take_too_long_are_left_out(
    monkeypatch: pytest.MonkeyPatch, speed: float, measured: list[int]
) -> None:
    clock, rows_measured = [0.0], []

    def compute(rows: int, limit: float) -> float:
        seconds = 2.0 * rows**3 / speed
        clock[0] += max(seconds, limit)
        rows_measured.append(rows)
        return seconds

    monkeypatch.setattr(hardware, "_seconds_of_product", compute)
    monkeypatch.setattr("railbed.train.worker.hardware.time.perf_counter", lambda: clock[0])
    assert hardware.measured_peak() == pytest.approx(speed)
    assert rows_measured == measured
    assert clock[0] < 2 * hardware.PROBE_SECONDS


def test_a_real_product_is_measured() -> None:
    assert 1e6 < hardware.measured_peak() < 1e15
