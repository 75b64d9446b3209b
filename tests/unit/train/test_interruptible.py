"""Work in a thread of its own: its result, its error, and its end when nobody waits any longer."""

from __future__ import annotations

import signal
import threading

import pytest

from railbed.errors import DataError
from railbed.train.data.tokenizer import Report, run_interruptibly


def test_it_returns_and_reports_what_the_work_does() -> None:
    reports: list[tuple[str, int, int]] = []

    def work(report: Report) -> int:
        report("counting", 1, 2)
        return 42

    assert run_interruptibly(work, lambda *report: reports.append(report)) == 42
    assert reports == [("counting", 1, 2)]


def test_it_raises_what_the_work_raises() -> None:
    def work(_: Report) -> None:
        raise DataError("the text is too short")

    with pytest.raises(DataError, match="too short"):
        run_interruptibly(work, lambda *_: None)


def test_an_interruption_ends_work_that_reports() -> None:
    ended = threading.Event()

    def work(report: Report) -> None:
        signal.raise_signal(signal.SIGUSR1)
        try:
            while True:
                report("counting", 0, 0)
        finally:
            ended.set()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(work, lambda *_: None)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended.wait(60)
