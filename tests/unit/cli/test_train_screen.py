"""The terminal's summary of a training: what restarts cost, and why the exit code is not 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.events import event

from railbed.api.tally import Conclusion, Tally, conclude
from railbed.cli.screens.train import TrainScreen
from railbed.model.record import Finding, Measurement, Record, Verdict
from railbed.train.progress.steps import TrainingEnd


def step(number: int) -> list[Record]:
    labels: dict[str, str | int] = {"rank": 0, "step": number}
    names = ("loss", "tokens_per_second", "step_seconds")
    return [Measurement(name=name, value=5.0, unit="1", labels=labels) for name in names]


def shown(*records: Record) -> TrainScreen:
    screen = TrainScreen(verbose=False)
    for record in (event(name="training", data={"recipe": {"steps": 2}}), *step(1), *records, *step(2)):
        screen.show(record)
    screen.finish(Path("runs/20260101-120000-train"))
    return screen


def test_the_last_line_explains_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    ending = event(name="ending", message="trained to the end, but node3 was lost at step 1 (no word for 4 s)")
    restart = event(name="restart", subject="node3", message="node3: no word for 4 s")
    caught_up = event(name="caught_up", message="the restart cost 35.0 s: …", data={"lost_seconds": 35.0})
    shown(restart, caught_up, ending)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("trained 2 of 2 steps, 1 restart, which cost 35.0 s: loss 5.000")
    assert lines[-1] == "exit 1: trained to the end, but node3 was lost at step 1 (no word for 4 s)"
    assert "the restart cost 35.0 s" in err


def test_what_changed_before_a_restart_is_one_line_and_does_not_decide_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = Finding(
        check="mtu",
        subject="node2/rail0",
        verdict=Verdict.FAIL,
        expected="MTU 9000",
        observed="MTU 1400",
        why="…",
        generation=1,
        before="MTU 9000",
    )
    cause = "probable cause: node2/rail0: MTU 1400, before the launch: MTU 9000 (mtu)"
    checked = event(name="restart_checked", message=cause, data={"generation": 1, "failed": 1})
    shown(event(name="restart", message="no step for 4.5 s"), changed, checked)
    assert [line.strip() for line in capsys.readouterr().err.splitlines() if "MTU" in line] == [cause]
    tally, ending = Tally(), TrainingEnd([])
    tally.count(changed)
    ending.add_record(changed)
    assert (conclude(tally), ending.event()) == (Conclusion(0), None)


def test_a_run_that_ends_well_says_nothing_of_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    shown()
    assert "exit" not in capsys.readouterr().out


def test_an_intrusion_is_shown_and_never_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    intrusion = event(name="intrusion", subject="node1", message="a connection from 10.0.0.9 was turned away")
    shown(intrusion)
    assert "node1: a connection from 10.0.0.9 was turned away" in capsys.readouterr().err
    for record in (intrusion, event(name="ending", message="trained to the end, but …")):
        tally = Tally()
        assert conclude(tally) == Conclusion(0)
        tally.count(record)
        assert conclude(tally) == Conclusion(1, record.message)
