"""The progress line: its text, that it moves while nothing else does, and who gets to see it."""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.events import event

from railbed.cli.screens import progress as line_module
from railbed.cli.screens.base import JsonScreen, Screen
from railbed.cli.screens.progress import PLAIN_SECONDS, Activity, ProgressLine, fit_line, working
from railbed.model import text
from railbed.model.events.general import progress
from railbed.model.record import Event, Measurement

HANG = 20.0


class Clock:
    """Seconds that pass on request."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def activity(clock: Clock) -> Activity:
    return Activity(clock=clock)


def read(device: str) -> Event:
    return event(name="device_read", subject=device, data={"ok": True})


def test_who_has_not_answered_is_named(activity: Activity, clock: Clock) -> None:
    names = [f"node{number}" for number in range(1, 9)]
    activity.take(event(name="reading", data={"devices": 8, "names": names}))
    assert activity.line() == "reading  0/8  0:00"
    for number in (1, 2, 4):
        activity.take(read(f"node{number}"))
    clock.now = 12.0
    assert activity.line() == "reading  3/8  0:12  waiting for node3, node5, node6 and 2 more"
    for number in (5, 6, 8):
        activity.take(read(f"node{number}"))
    assert activity.line(bar="#-", width=80) == "reading  ############---- 6/8  0:12  waiting for node3, node7"


def test_a_bar_takes_what_the_words_leave_of_80_columns(activity: Activity) -> None:
    activity.count("step", 1285, 100_000)
    activity.expect(7720.0)
    activity.detail = "loss 1.857, 398 tokens/s, 100 % RDMA"
    words = "step  1285/100000  0:00, about 2:08:40 left  loss 1.857, 398 tokens/s, 100 % RDMA"
    assert len(words) > 79
    assert activity.line(bar="#-", width=80) == words, "no bar rather than fewer words"
    for width, bar in ((85, 0), (89, 6), (200, 16)):
        drawn = activity.line(bar="#-", width=width)
        assert (len(drawn) < width, drawn.count("#") + drawn.count("-")) == (True, bar)


def test_a_step_is_reported_with_its_usual_time_and_shows_details(activity: Activity, clock: Clock) -> None:
    activity.take(progress("installing Debian", subject="image", usual=90.0))
    clock.now = 65.0
    activity.take(progress("installing Debian", subject="image", usual=90.0, detail="downloading packages"))
    assert activity.line() == "image: installing Debian  1:05 (usually 1:30)  downloading packages"
    activity.take(progress("writing the disk", subject="image"))
    assert activity.line() == "image: writing the disk  0:00"


def test_any_event_about_what_is_waited_for_takes_it_off(activity: Activity) -> None:
    activity.take(progress("starting", waiting=["node1", "node2"]))
    activity.take(event(name="lab_node_booted", subject="node1"))
    assert activity.line() == "starting  0:00  waiting for node2"


def test_a_trial_that_takes_longer_corrects_the_estimate_of_the_others(activity: Activity, clock: Clock) -> None:
    data = {"number": 3, "seconds": 2.0, "done": 2, "total": 10, "expected": 8.0, "left": 60.0}
    activity.take(event(name="trial", subject="node1 > node2", message="ib_write_bw", data=data))
    clock.now = 5.0
    assert activity.line() == "measuring  2/10  0:05, about 0:55 left  ib_write_bw node1 > node2"
    clock.now = 30.0
    assert activity.line() == "measuring  2/10  0:30, about 1:40 left  ib_write_bw node1 > node2"


def test_steps_of_training_tell_what_is_left(activity: Activity, clock: Clock) -> None:
    activity.take(event(name="training", data={"recipe": {"steps": 100}}))
    for step in (1, 2):
        labels: dict[str, str | int] = {"rank": 0, "step": step}
        activity.take(Measurement(name="step_seconds", value=2.0, unit="s", labels=labels))
        activity.take(Measurement(name="step_seconds", value=9.0, unit="s", labels={**labels, "rank": 1}))
    clock.now = 1.0
    assert activity.line() == "step  2/100  0:01, about 3:15 left"


def test_the_time_of_steps_goes_on_after_an_evaluation(activity: Activity, clock: Clock) -> None:
    activity.take(event(name="training", data={"recipe": {"steps": 100}}))
    for step, begins in ((1, 0.0), (2, 40.0)):
        clock.now = begins
        labels: dict[str, str | int] = {"rank": 0, "step": step}
        activity.take(Measurement(name="step_seconds", value=2.0, unit="s", labels=labels))
        clock.now = begins + 10.0
        activity.take(progress("evaluating"))
        assert activity.line().startswith("evaluating  0:00")
    clock.now = 60.0
    activity.take(Measurement(name="step_seconds", value=2.0, unit="s", labels={"rank": 0, "step": 3}))
    assert activity.line().startswith("step  3/100  1:00")


def test_what_devices_say_does_not_steer_the_terminal(activity: Activity) -> None:
    activity.take(progress("\x1b[2Jreading\nmore"))
    assert "\x1b" not in activity.line()
    assert "\n" not in activity.line()


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (65.4, "1:05"), (3600, "1:00:00")])
def test_times(seconds: float, shown: str) -> None:
    assert text.clock(seconds) == shown


def test_a_line_is_cut_before_the_last_column() -> None:
    assert fit_line("x" * 100, 80) == "x" * 79
    assert fit_line("節" * 100, 80) == "節" * 39
    assert fit_line("short", 80) == "short"


class FakeTerminal(io.StringIO):
    """Standard error that is, or is not, a terminal; signals when something was written."""

    encoding = "utf-8"

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self.written = threading.Condition()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        with self.written:
            count = super().write(text)
            self.written.notify_all()
        return count

    def wait_for(self, is_there: Callable[[str], object]) -> None:
        """Wait until what was written is as it should be; only a hang takes long."""
        with self.written:
            assert self.written.wait_for(lambda: is_there(self.getvalue()), timeout=HANG), self.getvalue()


def stderr(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> FakeTerminal:
    fake = FakeTerminal(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", fake)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(line_module, "DRAW_SECONDS", 0.05)
    return fake


def test_on_a_terminal_the_line_moves_while_the_work_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is this thread, and it does nothing until a later second is on the screen."""
    fake = stderr(monkeypatch, is_terminal=True)
    with working("reading the records", usual=90.0):
        fake.wait_for(lambda output: "reading the records  0:01 (usually 1:30)" in output)
    assert fake.getvalue().endswith("\r\x1b[K"), "the line is taken away"


def test_without_a_terminal_a_plain_line_comes_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = stderr(monkeypatch, is_terminal=False)
    monkeypatch.setattr(line_module, "PLAIN_SECONDS", ((float("inf"), 0.2),))
    with working("reading the records"):
        fake.wait_for(lambda output: output.count("\n") >= 2)
    assert re.fullmatch(r"(reading the records  0:\d\d\n)+", fake.getvalue())


def test_plain_lines_become_rarer() -> None:
    assert [pause for _, pause in PLAIN_SECONDS] == [10.0, 30.0, 60.0]


def test_a_sentence_stays_above_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = stderr(monkeypatch, is_terminal=True)
    with ProgressLine() as line:
        line.activity.begin("measuring")
        fake.wait_for(lambda output: "measuring" in output)
        line.print_line("node2 is slow")
        fake.wait_for(lambda output: "measuring" in output.partition("node2 is slow")[2])
    before, _, after = fake.getvalue().partition("node2 is slow")
    assert before.endswith("\r\x1b[K")
    assert after.startswith("\n")


def test_interrupted_it_says_that_the_end_takes_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = stderr(monkeypatch, is_terminal=True)
    with ProgressLine() as line:
        line.activity.begin("measuring")
        line.end()
        fake.wait_for(lambda output: "ending all processes, 0:00: Ctrl-C again ends at once" in output)


def test_a_terminal_that_was_closed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(FakeTerminal):
        tries = 0

        def write(self, _text: str) -> int:
            self.tries += 1
            raise OSError(5, "Input/output error")

    fake = stderr(monkeypatch, is_terminal=True)
    closed = Closed(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", closed)
    deadline = time.monotonic() + HANG
    with ProgressLine() as line:
        line.activity.begin("measuring")
        line.print_line("a sentence")
        while closed.tries < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert fake.getvalue() == ""


@pytest.mark.parametrize(
    ("out", "err", "shown"), [(False, True, True), (True, True, False), (False, False, False), (True, False, False)]
)
def test_records_as_json_are_never_mixed_with_progress(
    monkeypatch: pytest.MonkeyPatch, *, out: bool, err: bool, shown: bool
) -> None:
    fake = stderr(monkeypatch, is_terminal=err)
    monkeypatch.setattr(line_module, "PLAIN_SECONDS", ((float("inf"), 0.1),))
    stdout = FakeTerminal(is_terminal=out)
    monkeypatch.setattr(sys, "stdout", stdout)
    screen: Screen = JsonScreen()
    with screen:
        screen.show(progress("measuring"))
        if shown:
            fake.wait_for(lambda output: "measuring" in output)
        else:
            assert screen.line._thread is None
    screen.finish(Path())
    assert stdout.getvalue().count("\n") == 1
    assert stdout.getvalue().startswith('{"name":"progress"')
