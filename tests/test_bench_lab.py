"""`railbed bench` in a lab of namespaces: finds the slow one of four nodes; collectives in one job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import warm
from tests.support.benchsite import write_suite
from tests.support.cli import Result
from tests.support.labs import RunningLab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]
needs_iperf3 = pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")


def bench(lab: RunningLab, *steps: str) -> Result:
    write_suite(lab.folder, *steps)
    return lab.railbed("bench", "suite.yaml", "--json")


def measured(records: Sequence[dict[str, Any]], name: str, **labels: object) -> list[dict[str, Any]]:
    measurements = [record for record in records if record["kind"] == "measurement" and record["name"] == name]
    return [record for record in measurements if labels.items() <= record["labels"].items()]


@pytest.fixture(scope="module")
def lab(netns_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    folder = tmp_path_factory.mktemp("bench")
    # All nodes see one disk; what they write is below the test's own folder.
    return netns_lab.seen_from(folder, rails=("rail0", "rail1"), workdir=folder)


@pytest.fixture(scope="module")
def lab_with_torch(netns_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """The lab, whose nodes fork their ranks from a Python that has loaded torch."""
    folder = tmp_path_factory.mktemp("collectives")
    with warm.running(netns_lab, tmp_path_factory.mktemp("warm"), door="railbed-bench") as python:
        yield netns_lab.seen_from(folder, rails=("rail0", "rail1"), workdir=folder, python=python)


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults and with every node up after the test."""
    yield lab
    lab.heal()


@needs_iperf3
@pytest.mark.parametrize("target", ["rail1", pytest.param("node3", marks=pytest.mark.soak)])
def test_what_is_slow_is_named_by_the_pair_matrix(healed: RunningLab, target: str) -> None:
    assert healed.fault("slow", target, "100M").code == 0
    result = bench(healed, "test: iperf3, seconds: 1, pattern: rounds, direction: each")
    outliers = [finding for finding in result.findings if finding["check"] == "bench_outlier"]
    assert {(finding["subject"], finding["verdict"]) for finding in outliers} == {(target, "fail")}, outliers
    labels = [record["labels"] for record in measured(result.records, "bandwidth")]
    assert len({(label["from"], label["to"], label["rail"]) for label in labels}) == 24
    assert result.code == 1


@needs_iperf3
def test_patterns_run_at_the_same_time(lab: RunningLab) -> None:
    result = bench(
        lab,
        "test: iperf3, seconds: 1, pattern: incast, direction: one, rails: together",
        "test: iperf3, seconds: 1, pattern: ring, direction: one",
    )
    assert result.code in {0, 1}, result  # who shares a link at one moment and who does not is up to the flows
    incast = [
        record["labels"] for record in measured(result.records, "bandwidth", pattern="incast, all rails", to="node1")
    ]
    assert {(measurement["from"], measurement["rail"]) for measurement in incast} == {
        (f"node{number}", rail) for number in (2, 3, 4) for rail in ("rail0", "rail1")
    }
    assert len({measurement["trial"] for measurement in incast}) == 1
    assert len(measured(result.records, "bandwidth", pattern="ring", rail="rail0")) == 4


@pytest.fixture
def slow_lab(lab_with_torch: RunningLab) -> Iterator[RunningLab]:
    """The lab with torch, with rails so slow that ranks wait for them instead of keeping all processors busy."""
    for rail in ("rail0", "rail1"):
        assert lab_with_torch.fault("slow", rail, "20M").code == 0
    yield lab_with_torch
    lab_with_torch.heal()


def test_collectives_run_in_one_job_and_say_so(slow_lab: RunningLab) -> None:
    lab = slow_lab
    operations = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
    sizes = {"all_reduce": "8, 64K"}
    result = bench(
        lab, *(f"test: {name}, sizes: [{sizes.get(name, '64K')}], seconds: 1, engine: gloo" for name in operations)
    )
    proof = [finding for finding in result.findings if finding["check"] == "bench_one_job"]
    assert [(finding["verdict"], finding["observed"]) for finding in proof] == [
        ("ok", "4 ranks on 4 nodes received each other's random numbers")
    ], result
    for name in operations:
        measurements = measured(result.records, "bus_bandwidth", test=name)
        assert [record["labels"]["size"] for record in measurements][-1] == 65536, result
        algorithm = measured(result.records, "algorithm_bandwidth", test=name)
        factor = {"all_reduce": 1.5, "broadcast": 1.0}.get(name, 0.75)
        assert [record["value"] for record in measurements] == pytest.approx(
            [measurement["value"] * factor for measurement in algorithm]
        )
    assert result.code == 0, result
    run = max((lab.folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    again = lab.railbed("bench", "suite.yaml", "--json", "--replay", run)
    assert again.code == 3, again
    assert [finding["observed"] for finding in again.findings] == ["a recording cannot run a job over all nodes"]


def test_an_engine_that_is_not_there_is_a_finding(lab_with_torch: RunningLab, tmp_path: Path) -> None:
    two = lab_with_torch.seen_from(tmp_path, nodes=2, workdir=tmp_path)
    result = bench(two, "test: all_reduce, sizes: [8], engine: pigeons", "test: ping, samples: 5, pattern: pair")
    (failed,) = [
        finding for finding in result.findings if (finding["check"], finding["verdict"]) == ("bench_measured", "fail")
    ]
    assert "pigeons" in failed["observed"]
    assert measured(result.records, "round_trip")


VISITS = """
repeats: 3
visits: 2
between: move the cable to another port
a: {name: old port}
b: {name: new port}
comparisons:
  - measure: bandwidth
    a: {test: iperf3, pattern: pair, direction: one, seconds: 1}
    b: {test: iperf3, pattern: pair, direction: one, seconds: 1}
"""


def second_visit(lab: RunningLab, run: str) -> tuple[str, dict[str, float]]:
    """Measure the other arm; return the answer, and the bounds of the difference."""
    result = lab.railbed("bench", "--second-visit", run, "--json")
    (answer,) = [finding["observed"] for finding in result.findings if finding["check"] == "bench_difference"]
    measurements = measured(result.records, "difference")
    return answer, {record["labels"]["bound"]: record["value"] for record in measurements}


@needs_iperf3
def test_a_change_between_two_visits_is_measured(healed: RunningLab, tmp_path: Path) -> None:
    """A rail of 100 Mb/s; then the same rail, and then a rail of 20 Mb/s in its place.

    A sample taken while other processes have the cores can be a quarter too low: the limits allow for that.
    """
    lab = healed.seen_from(tmp_path, nodes=2)
    assert lab.fault("slow", "rail0", "100M").code == 0
    (tmp_path / "visits.yaml").write_text(VISITS)
    first = lab.railbed("bench", "--experiment", "visits.yaml")
    (run,) = (tmp_path / "runs").iterdir()
    assert f"railbed bench --second-visit {run.name} -c " in first.err, first
    answer, bounds = second_visit(lab, run.name)
    assert abs(bounds["mean"]) < 0.03, answer
    assert lab.fault("heal").code == 0
    assert lab.fault("slow", "rail0", "20M").code == 0
    answer, bounds = second_visit(lab, run.name)
    assert bounds["mean"] < -0.05, answer
    assert bounds["high"] < 0, answer
    assert "new port is worse by" in answer
    assert "in two visits" in answer


MTUS = """
repeats: 3
a: {name: as it is}
b: {name: MTU 1400, change: {mtu: 1400}}
comparisons:
  - measure: round_trip
    a: {test: ping, samples: 5, pattern: pair, direction: one}
    b: {test: ping, samples: 5, pattern: pair, direction: one}
"""


def test_an_arm_sets_the_mtu_and_undoes_it(lab: RunningLab, tmp_path: Path) -> None:
    lab = lab.seen_from(tmp_path, nodes=2)
    (tmp_path / "mtus.yaml").write_text(MTUS)
    before = lab.run_inside("node1", "cat /sys/class/net/rail0/mtu").out
    result = lab.railbed("bench", "--experiment", "mtus.yaml", "--json")
    assert result.code == 0, result
    arms = [record["labels"]["arm"] for record in measured(result.records, "round_trip")]
    assert arms.count("MTU 1400") == arms.count("as it is") > 0
    (run,) = (tmp_path / "runs").iterdir()
    commands = "".join(path.read_text(errors="replace") for path in (run / "raw").rglob("*") if path.is_file())
    assert "ip link set dev rail0 mtu 1400" in commands
    assert lab.run_inside("node1", "cat /sys/class/net/rail0/mtu").out == before
