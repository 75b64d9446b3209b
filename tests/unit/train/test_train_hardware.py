"""The speed of a processor, which MFU refers to: measured within a moment on any of them."""

from __future__ import annotations

import pytest
import torch

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


@pytest.mark.parametrize("step", [1e-9, 4e-3, 10.0], ids=["fine", "ticks", "stands still"])
def test_a_clock_that_advances_in_steps_measures_no_miracles(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """A product that falls between two steps of the clock has not been computed in no time."""
    now, speed = [0.0], 5e10

    def multiply(left: torch.Tensor, _: torch.Tensor) -> None:
        now[0] += 2.0 * len(left) ** 3 / speed

    monkeypatch.setattr(torch, "mm", multiply)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr("railbed.train.worker.hardware.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("railbed.train.worker.hardware.time.process_time", lambda: now[0] // step * step)
    assert hardware.measured_peak() == pytest.approx(speed, rel=0.2)


def test_a_real_product_is_measured() -> None:
    """No processor computes 1e14 in fp32; one that is emulated on a busy machine computes 1e6."""
    assert 1e6 < hardware.measured_peak() < 1e14
