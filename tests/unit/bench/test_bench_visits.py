"""An experiment in two visits: what the second uses from the first, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.support.runs import CLUSTER, plain_run

from railbed.bench import experiments
from railbed.bench.compare.arms import Contest, Side, answer
from railbed.bench.compare.experiment import Experiment
from railbed.bench.compare.visits import cluster_mismatch, first_visit_event, read_first_visit, time_since
from railbed.check.book import CHECK_BOOK
from railbed.errors import SuiteError, UsageError
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Measurement, Record

QUESTION = experiments.load("direct-vs-switch")


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def cluster(text: str = CLUSTER) -> Cluster:
    return Cluster.model_validate(YAML(typ="safe").load(text))


def contest(number: int = 1, *, apart: str = "") -> Contest:
    comparison = QUESTION.comparisons[number - 1]
    a, b = Side(arm=QUESTION.a, step=comparison.a), Side(arm=QUESTION.b, step=comparison.b)
    return Contest(number=number, comparison=comparison, a=a, b=b, apart=apart)


def first_visit(*values: float) -> Path:
    began = contest()
    records: list[Record] = [began.add(began.a, repeat, value) for repeat, value in enumerate(values, 1)]
    return plain_run([*records, first_visit_event("direct-vs-switch", QUESTION, [began])], verb="bench")


def test_the_second_visit_knows_the_experiment_and_the_numbers_of_the_first() -> None:
    run = first_visit(1.25, 1 / 3)
    first = read_first_visit(run, cluster())
    assert first.experiment == QUESTION
    assert (first.name, first.run) == ("direct-vs-switch", run.name)
    assert {repeat: measurement.value for repeat, measurement in first.values_of(1).items()} == {1: 1.25, 2: 1 / 3}
    assert first.values_of(2) == {}


def test_the_answer_says_that_the_arms_were_not_measured_in_turns() -> None:
    visited = contest(apart="5 minutes")
    for side, values in ((visited.a, (1.0, 1.1, 0.9)), (visited.b, (2.0, 2.1, 1.9, 2.0))):
        for repeat, value in enumerate(values, 1):
            visited.add(side, repeat, value)
    *bounds, finding = answer(visited)
    assert isinstance(finding, Finding)
    assert "direct 1.000 µs, switch 2.000 µs in the mean: switch is worse by 100.0 %" in finding.observed
    assert (
        "measured in two visits 5 minutes apart, so it includes anything else that changed in between"
        in finding.observed
    )
    assert "not what else changed between the visits" in finding.why
    numbers = [record for record in bounds if isinstance(record, Measurement)]
    by_bound = {str(value.labels["bound"]): value.value for value in numbers if value.name == "difference"}
    assert by_bound["mean"] == pytest.approx(1.0)
    assert by_bound["low"] < 1 < by_bound["high"]


def test_one_repeat_of_an_arm_is_not_an_answer() -> None:
    lone = contest(apart="5 minutes")
    lone.add(lone.a, 1, 1.0)
    (finding,) = answer(lone)
    assert isinstance(finding, Finding)
    assert finding.verdict == "unknown"


def test_ways_that_differ_are_reported() -> None:
    run = first_visit(1.0, 2.0)
    records = (run / "records.jsonl").read_text().splitlines()
    event = json.loads(records[-1])
    event["data"]["paths"] = [["node1 > node2 on rail0"]]
    (run / "records.jsonl").write_text("\n".join([*records[:-1], json.dumps(event)]) + "\n")
    first = read_first_visit(run, cluster())
    went_on = contest()
    went_on.a.values = first.values_of(1)
    assert first.mismatch(went_on) == "the first visit measured node1 > node2 on rail0; now it would be nothing"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("  node2:", "  node3:", "its nodes were node1, node2, and here they are node1, node3"),
        ("10.0.2.12", "10.0.2.13", "node2 was 10.0.2.12, and is 10.0.2.13 here"),
        (
            "{netdev: rail0, rdma: rxe0, rail: rail0, address: 10.77.0.2",
            "{netdev: eth9, rail: rail0, address: 10.77.0.2",
            "node2 had rail0 on rail0, and has eth9",
        ),
    ],
)
def test_other_machines_are_refused(old: str, new: str, why: str) -> None:
    other = cluster(CLUSTER.replace(old, new))
    assert why in cluster_mismatch(cluster(), other)
    with pytest.raises(UsageError, match="measured another cluster"):
        read_first_visit(first_visit(1.0, 2.0), other)


def test_a_rail_may_become_point_to_point() -> None:
    direct = CLUSTER.replace("speed: 10}", "speed: 10, point_to_point: true}")
    assert cluster_mismatch(cluster(direct), cluster()) == ""


def test_what_is_not_a_first_visit_is_refused() -> None:
    with pytest.raises(UsageError, match="is not the first visit of an experiment"):
        read_first_visit(plain_run(verb="check"), cluster())
    event = first_visit_event("x", QUESTION, [contest()])
    with pytest.raises(UsageError, match="did not complete: it failed"):
        read_first_visit(plain_run([event], verb="bench", status="failed"), cluster())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("visits: 2", "visits: 2 and between belong together"),
        ("between: move the cable", "visits: 2 and between belong together"),
        ("visits: 3", "visits"),
        ("visits: 2\nbetween: move it\na: {name: a, change: {mtu: 1500}}", "a person makes the change"),
    ],
)
def test_a_file_that_cannot_be_is_refused(tmp_path: Path, text: str, why: str) -> None:
    rest = "b: {name: b}\ncomparisons: [{measure: round_trip, a: {test: ping}, b: {test: ping}}]\n"
    rest += "" if "a:" in text else "a: {name: a}\n"
    (tmp_path / "e.yaml").write_text(f"{text}\n{rest}")
    with pytest.raises(SuiteError, match=why):
        experiments.load(str(tmp_path / "e.yaml"))


def test_a_wrong_entry_is_not_called_missing_as_well(tmp_path: Path) -> None:
    text = "a: {name: a}\nb: {name: b}\ncomparisons: [{measure: bandwith, a: {test: iperf3}, b: {test: iperf3}}]\n"
    (tmp_path / "e.yaml").write_text(text)
    with pytest.raises(SuiteError) as error:
        experiments.load(str(tmp_path / "e.yaml"))
    assert "did you mean bandwidth?" in error.value.message
    assert "at least one" not in error.value.message


def test_the_time_between_is_reported_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    ages = [time_since(1_000_000.0 - seconds) for seconds in (30, 300, 10_000, 400_000)]
    assert ages == ["30 seconds", "5 minutes", "3 hours", "5 days"]


def test_every_experiment_that_comes_with_railbed_can_be_loaded() -> None:
    for name in experiments.names():
        experiment = experiments.load(name)
        assert experiment == Experiment.model_validate(experiment.model_dump(mode="json", exclude_none=True))


def test_the_rules_of_arms_that_configure_devices_exist() -> None:
    arms = [arm for name in experiments.names() for arm in (experiments.load(name).a, experiments.load(name).b)]
    rules = {rule for arm in arms if arm.change and arm.change.configure for rule in arm.change.configure}
    assert {"pfc", "switch_pfc"} <= rules <= set(CHECK_BOOK.rules)
