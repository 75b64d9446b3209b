"""Which measurements are repeated before a node is blamed: few, and not forever."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest

from railbed.bench.remeasure import doubtful_paths, extra_trials, remeasure_event
from railbed.bench.schedule import BenchSchedule, make_schedule
from railbed.bench.site import BenchSite, PortSite
from railbed.bench.suite import Step, Suite
from railbed.bench.tool import End
from railbed.clusterfile import loads
from railbed.model.record import Measurement

NODES = "abcd"
CLUSTER = loads(
    "name: c\nrails: {r0: {subnet: 10.0.0.0/24}}\nnodes:\n"
    + "".join(
        f"  {name}: {{host: 1.1.1.{number}, ports: [{{netdev: e0, rail: r0, address: 10.0.0.{number}}}]}}\n"
        for number, name in enumerate(NODES, 1)
    ),
    name="cluster.yaml",
)
WAYS = tuple(permutations(NODES, 2))


def plan(repeats: int = 1) -> BenchSchedule:
    ports = tuple(PortSite(end=End(node=name, rail="r0", netdev="e0")) for name in NODES)
    site = BenchSite(cluster=CLUSTER, ports=ports, failed={}, used={}, gpus={})
    step = Step.model_validate({"test": "iperf3", "pattern": "matrix", "direction": "each", "repeats": repeats})
    return make_schedule(Suite(steps=(step,)), site)


def measured(plan: BenchSchedule, slow: Mapping[tuple[str, str], float]) -> list[Measurement]:
    measurements = []
    for trial in plan.trials:
        (flow,) = trial.flows
        way = (flow.source.node, flow.target.node)
        labels: dict[str, str | int] = {"test": "iperf3", "from": way[0], "to": way[1], "rail": "r0"}
        labels |= {"pattern": "matrix", "trial": trial.number, "repeat": trial.repeat}
        measurements.append(Measurement(name="bandwidth", value=slow.get(way, 10.0), unit="Gb/s", labels=labels))
    return measurements


def test_a_single_way_is_measured_until_there_are_three() -> None:
    for repeats in (1, 2):
        laid = plan(repeats)
        doubtful = doubtful_paths(measured(laid, {("b", "d"): 4.0}))
        assert [(finding.source, finding.target, len(finding.trials)) for finding in doubtful] == [("b", "d", repeats)]
        again = extra_trials(laid, doubtful)
        assert [record.repeat for record in again] == list(range(repeats + 1, 4))
        assert [record.number for record in again] == [len(laid.trials) + 1 + at for at in range(3 - repeats)]
        assert {(record.flows[0].source.node, record.flows[0].target.node) for record in again} == {("b", "d")}
        assert remeasure_event(doubtful, again).message.startswith(
            "b > d on r0 lags behind the others: measuring again, about"
        )


def test_what_three_ways_say_of_a_port_is_asked_again_in_turns() -> None:
    laid = plan()
    slow = {way: 4.0 for way in WAYS if way[1] == "c"}
    again = extra_trials(laid, doubtful_paths(measured(laid, slow)))
    ways = [(record.flows[0].source.node, record.flows[0].target.node) for record in again]
    assert ways == [*slow, *slow]
    assert [record.repeat for record in again] == [2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("repeats", "slow"),
    [
        (1, {}),
        (3, {("b", "d"): 4.0}),
        (1, {way: 4.0 for way in WAYS if "c" in way}),
    ],
    ids=["all alike", "measured three times", "a node"],
)
def test_what_is_sure_is_not_measured_again(repeats: int, slow: dict[tuple[str, str], float]) -> None:
    laid = plan(repeats)
    assert extra_trials(laid, doubtful_paths(measured(laid, slow))) == []


def test_many_single_ways_are_not_a_moment() -> None:
    """Every node sends and receives well to somebody, so that no node or port explains it."""
    slow = {way: 4.0 for way in WAYS if (ord(way[0]) - ord(way[1])) % 4 != 1}
    assert len(slow) == 8
    laid = plan()
    assert extra_trials(laid, doubtful_paths(measured(laid, slow))) == []
