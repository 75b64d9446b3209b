"""What a restart costs: from the last new step until it is reached again."""

from __future__ import annotations

import pytest
from tests.support.events import event

from railbed.model.record import Event, Finding, Measurement, Record, Verdict
from railbed.train.progress.steps import Downtime, TrainingEnd


class Story:
    """A run whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self._downtime = Downtime(lambda: self.now)
        self.events: list[Event] = []

    def add_record(self, record: Record) -> None:
        for known in self._downtime.add_record(record):
            assert isinstance(known, Event)
            self.events.append(known)

    def begin(self) -> None:
        self.add_record(event(name="generation"))

    def steps(self, first: int, last: int, seconds: float = 2.0) -> None:
        for step in range(first, last + 1):
            self.now += seconds
            labels: dict[str, str | int] = {"rank": 0, "step": step}
            self.add_record(Measurement(name="step_seconds", value=seconds, unit="s", labels=labels))

    def fail(self, unnoticed: float, stopped: float) -> None:
        self.now += unnoticed
        self.add_record(event(name="restart"))
        self.now += stopped / 2
        self.begin()
        self.now += stopped / 2


@pytest.fixture
def story() -> Story:
    story = Story()
    story.begin()
    story.now += 5
    return story


def parts(event: Event) -> tuple[object, ...]:
    names = ("lost_seconds", "unnoticed_seconds", "stopped_seconds", "again_seconds", "steps_again", "restarts")
    return tuple(event.data[name] for name in names)


def test_detection_start_and_repeated_steps_are_lost(story: Story) -> None:
    story.steps(1, 17)
    story.fail(unnoticed=4.7, stopped=11.3)
    story.steps(11, 16)
    assert story.events == []
    story.steps(17, 30)
    (account,) = story.events
    assert parts(account) == pytest.approx((30.0, 4.7, 11.3, 14.0, 7, 1))
    assert account.message == (
        "the restart cost 30.0 s: 4.7 s until it was noticed, 11.3 s until steps were taken again, "
        "14.0 s for 7 steps again"
    )


def test_a_restart_right_after_a_checkpoint_repeats_nothing(story: Story) -> None:
    story.steps(1, 10)
    story.fail(unnoticed=0.0, stopped=6.0)
    story.steps(11, 12)
    assert parts(story.events[0]) == pytest.approx((6.0, 0.0, 6.0, 0.0, 0, 1))


def test_a_failure_before_the_first_step_costs_the_start(story: Story) -> None:
    story.fail(unnoticed=3.0, stopped=4.0)
    story.steps(1, 2)
    assert story.events[0].data["lost_seconds"] == pytest.approx(10.0)  # 5 and 3 until noticed, 2 until started again


def test_restarts_before_the_first_is_made_good_are_one_account(story: Story) -> None:
    story.steps(1, 17)
    story.fail(unnoticed=4.0, stopped=6.0)
    story.steps(11, 12)
    story.fail(unnoticed=4.0, stopped=6.0)
    story.steps(11, 18)
    (account,) = story.events
    assert parts(account) == pytest.approx((4 + 6 + 4 + 4 + 6 + 14, 4.0, 20.0, 14.0, 7, 2))
    story.fail(unnoticed=1.0, stopped=1.0)
    story.steps(19, 19)
    assert len(story.events) == 2


def finished(*records: Record) -> Event | None:
    ending = TrainingEnd(["node1", "node2"])
    for record in records:
        ending.add_record(record)
    return ending.event()


def failed(check: str, subject: str, observed: str) -> Finding:
    return Finding(check=check, subject=subject, verdict=Verdict.FAIL, expected="…", observed=observed, why="…")


def generation(*nodes: str) -> Event:
    return event(name="generation", data={"nodes": list(nodes)})


def test_a_run_that_ends_well_has_nothing_to_explain() -> None:
    lost = event(name="node_lost", subject="node2", message="no word for 4 s")
    assert finished(generation("node1", "node2")) is None
    assert finished(generation("node1", "node2"), lost, generation("node1"), generation("node1", "node2")) is None


def test_a_node_that_is_missing_in_the_end_is_named_with_step_and_reason() -> None:
    step = Measurement(name="step_seconds", value=1.0, unit="s", labels={"rank": 0, "step": 41})
    lost = event(name="node_lost", subject="node2", message="no word for 4 s")
    clock = finished(generation("node1", "node2"), step, lost, generation("node1"))
    assert clock is not None
    assert clock.message == "trained to the end, but node2 was lost at step 41 (no word for 4 s)"
    assert clock.data["lost"] == {"node2": {"step": 41, "why": "no word for 4 s"}}


def test_a_node_that_was_never_there_an_intruder_and_a_failed_finding_are_named() -> None:
    unreachable = failed("reachable", "node2", "no route")
    proof = failed("gradients_over_rdma", "cluster", "went over TCP")
    intrusion = event(name="intrusion", subject="node1", message="…", data={"address": "10.0.0.9"})
    clock = finished(unreachable, generation("node1"), intrusion, intrusion, proof)
    assert clock is not None
    assert clock.message == (
        "trained to the end, but node2 did not take part; gradients_over_rdma failed for cluster: went over TCP; "
        "a stranger at 10.0.0.9 tried to connect to its ranks"
    )
