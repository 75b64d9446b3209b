"""Percentiles, outliers, baselines and limits, compared with values computed by hand or by Python's statistics."""

from __future__ import annotations

import random
import statistics as python
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.bench import baseline
from railbed.bench.collective.spec import CollectiveSpec, Operation, bus_factor
from railbed.bench.compare.arms import describe
from railbed.bench.outliers import (
    Outlier,
    PathLimit,
    PathSample,
    find_outliers,
    judge_bandwidth,
    latency_limit,
    slowest,
)
from railbed.bench.wrapper import unwrap
from railbed.errors import UsageError
from railbed.model.record import Measurement, Verdict
from railbed.model.statistics import (
    distribution,
    median,
    paired_difference,
    percentile,
    separate_difference,
    spread,
    t_probability,
    t_quantile,
)

VALUES = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300)


@given(VALUES, st.sampled_from([1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0]))
def test_a_percentile_is_a_sample_that_so_many_do_not_exceed(values: list[float], percent: float) -> None:
    ordered = sorted(values)
    result = percentile(ordered, percent)
    assert result in ordered
    assert sum(value <= result for value in ordered) * 100 >= percent * len(ordered) - 1e-6
    assert sum(value < result for value in ordered) * 100 < percent * len(ordered) + 1e-6


@given(VALUES)
def test_median_and_mean_are_those_of_python(values: list[float]) -> None:
    assert median(values) == pytest.approx(python.median(values))
    statistics = distribution(values)
    assert statistics["mean"] == pytest.approx(python.fmean(values))
    assert (statistics["min"], statistics["max"]) == (min(values), max(values))


def test_a_percentile_that_has_too_few_samples_is_left_out() -> None:
    assert set(distribution([1.0] * 50)) == {"min", "mean", "p50", "p90", "max"}
    assert "p99" in distribution([1.0] * 100)
    assert "p99.9" not in distribution([1.0] * 999)
    assert "p99.99" in distribution([1.0] * 10000)


def test_one_wild_value_does_not_move_the_spread() -> None:
    assert spread([10, 11, 9, 10, 1000]) == pytest.approx(1.4826)


NODES = ("a", "b", "c", "d")


def matrix(rails: tuple[str, ...] = ("r0",), **slow: float) -> list[PathSample]:
    """Return all ways, 10 each with a little noise; a name (node, rail, node_rail, node_to, node_from) makes slow."""
    samples = []
    for rail in rails:
        for number, (source, target) in enumerate(permutations(NODES, 2)):
            value = 10.0 + 0.05 * (number % 3)
            names = {source, target, rail, f"{source}_{rail}", f"{target}_{rail}", f"{target}_to", f"{source}_from"}
            names.add(f"{source}{target}")
            for name, factor in slow.items():
                value *= factor if name in names else 1.0
            samples.append(PathSample(source=source, target=target, rail=rail, value=value))
    return samples


def named(outliers: list[Outlier]) -> list[tuple[str, str]]:
    return [(record.kind, record.name) for record in outliers]


@pytest.mark.parametrize(
    ("rails", "slow", "wanted"),
    [
        (("r0",), {}, []),
        (("r0",), {"c": 0.5}, [("node", "c")]),
        (("r0", "r1"), {"r1": 0.2}, [("rail", "r1")]),
        (("r0", "r1"), {"c_r1": 0.3}, [("port", "c/r1")]),
        (("r0", "r1"), {"c": 0.3}, [("node", "c")]),
        (("r0",), {"b_to": 0.4}, [("receives", "b/r0")]),
        (("r0",), {"b_from": 0.4}, [("sends", "b/r0")]),
        (("r0",), {"ab": 0.4}, [("pair", "a > b on r0")]),
        (("r0",), {"c": 0.95}, []),
    ],
)
def test_what_is_slow_is_named_by_what_it_has_in_common(
    rails: tuple[str, ...], slow: dict[str, float], wanted: list[tuple[str, str]]
) -> None:
    samples = matrix(rails, **slow)
    assert named(find_outliers(samples, higher_is_better=True)) == wanted
    turned = [
        PathSample(
            source=measurement.source, target=measurement.target, rail=measurement.rail, value=1 / measurement.value
        )
        for measurement in samples
    ]
    assert named(find_outliers(turned, higher_is_better=False)) == wanted


def test_of_two_nodes_the_slow_rail_is_named_and_not_a_node() -> None:
    ways = [("a", "b"), ("b", "a")]
    samples = [
        PathSample(source=source, target=target, rail=rail, value=value)
        for rail, value in (("r0", 10.0), ("r1", 3.0))
        for source, target in ways
    ]
    assert named(find_outliers(samples, higher_is_better=True)) == [("rail", "r1")]
    assert find_outliers(samples[:2], higher_is_better=True) == []


def test_noise_is_not_an_outlier() -> None:
    """Values all over the place lag behind each other; none stands out."""
    values = [10, 14, 8.2, 12, 15.5, 9, 11, 13, 7.9, 14.5, 10.5, 9.5]
    samples = [
        PathSample(source=source, target=target, rail="r", value=value)
        for (source, target), value in zip(permutations(NODES, 2), values, strict=True)
    ]
    assert find_outliers(samples, higher_is_better=True) == []


@pytest.mark.parametrize(("best", "wanted"), [(7.0, []), (30.0, [("node", "c")])])
def test_a_latency_that_is_short_at_times_met_a_busy_moment(best: float, wanted: list[tuple[str, str]]) -> None:
    samples = [
        PathSample(source=a, target=b, rail="r", value=33.0, best=best)
        if "c" in (a, b)
        else PathSample(source=a, target=b, rail="r", value=16.0, best=6.5)
        for a, b in permutations(NODES, 2)
    ]
    assert named(find_outliers(samples, higher_is_better=False)) == wanted


@pytest.mark.parametrize("width", [0.02, 0.1, 0.3])
def test_what_is_alike_is_rarely_taken_for_slow_and_what_is_slow_nearly_always_found(width: float) -> None:
    """Twelve ways with noise of that width: few false names; and a node at a twentieth is named."""
    chance = random.Random(3)  # noqa: S311 -- data, not a secret
    wrong = right = 0
    for _ in range(200):
        noisy = [
            replace(measurement, value=measurement.value * chance.lognormvariate(0, width)) for measurement in matrix()
        ]
        wrong += bool(find_outliers(noisy, higher_is_better=True))
        slow = [
            replace(finding, value=finding.value * (0.05 if "c" in (finding.source, finding.target) else 1))
            for finding in noisy
        ]
        right += ("node", "c") in named(find_outliers(slow, higher_is_better=True))
    assert wrong <= 20
    assert right >= 190


def test_the_slowest_part_bounds_and_is_named() -> None:
    parts = [PathLimit(part="link", gbps=100), PathLimit(part="PCIe", gbps=63), PathLimit(part="other link", gbps=100)]
    part = slowest(parts)
    assert part == parts[1]
    assert [judge_bandwidth(value, parts[1]) for value in (63, 60.5, 60.4, 56.8, 56.6)] == [
        Verdict.OK,
        Verdict.OK,
        Verdict.WARN,
        Verdict.WARN,
        Verdict.FAIL,
    ]
    assert slowest([]) is None
    assert (latency_limit(direct=True, full_round_trip=False), latency_limit(direct=True, full_round_trip=True)) == (
        2.5,
        4.5,
    )


@pytest.mark.parametrize(
    ("operation", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 4, 1.5),
        ("all_gather", 4, 0.75),
        ("all_to_all", 8, 0.875),
        ("broadcast", 4, 1),
    ],
)
def test_bus_bandwidth_as_nccl_tests_defines_it(operation: str, ranks: int, factor: float) -> None:
    assert bus_factor(operation, ranks) == factor


def test_a_collective_job_reads_what_it_wrote() -> None:
    operations = (Operation(name="all_reduce", sizes=(8, 64), seconds=1.5),)
    job = CollectiveSpec(
        run="r",
        engine="gloo",
        rank=1,
        world=2,
        local_rank=0,
        node="node1",
        secret="ab",  # noqa: S106
        no_rdma="",
        master_address="127.0.0.1",
        master_port=1,
        interface="lo",
        operations=operations,
    )
    assert CollectiveSpec.from_json(job.to_json()) == job


def measured(value: float, name: str = "bandwidth", **labels: str | int) -> Measurement:
    return Measurement(name=name, value=value, unit="Gb/s", labels={"test": "t", "from": "a", "to": "b", **labels})


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = baseline.path_beside(tmp_path / "cluster.yaml")
    assert path.name == "cluster.baseline.json"
    assert baseline.read(path) is None
    made = baseline.make_baseline(
        [measured(10), measured(10.2), measured(3, stat="p99")], cluster="c", run="r", saved=1.0
    )
    baseline.write(path, made)
    assert baseline.read(path) == made
    assert [saved.count for saved in made.measures.values()] == [2]
    path.write_text("{}")
    with pytest.raises(UsageError, match="is not a baseline"):
        baseline.read(path)


@pytest.mark.parametrize(
    ("name", "now", "verdict"),
    [
        ("bandwidth", 9.8, Verdict.OK),
        ("bandwidth", 9.3, Verdict.WARN),
        ("bandwidth", 8.0, Verdict.FAIL),
        ("bandwidth", 20.0, Verdict.OK),
        ("round_trip", 8.0, Verdict.OK),
        ("round_trip", 12.0, Verdict.FAIL),
    ],
)
def test_worse_than_before_is_reported_in_the_direction_that_is_bad(name: str, now: float, verdict: Verdict) -> None:
    entry = baseline.BaselineEntry(middle=10.0, spread=0.0, count=1, unit="")
    assert baseline.compare([measured(now, name)], entry)[0] is verdict


def test_what_lies_in_the_noise_of_the_baseline_is_as_before() -> None:
    entry = baseline.BaselineEntry(middle=10.0, spread=1.0, count=5, unit="")
    assert baseline.compare([measured(8.0)], entry)[0] is Verdict.OK
    assert baseline.compare([measured(6.5)], entry)[0] is Verdict.FAIL


def test_the_shell_around_a_tool_tells_version_processor_time_and_where_it_ran() -> None:
    text = (
        "==> about <==\npinned 0-3\nversion Version: 6.06\nticks 100\ncpu  10 0 20 1000 0 0 5 0 0 0\n"
        "==> output <==\nthe tool's\nown words\n\n==> after <==\ncpu  60 0 120 1200 0 0 15 0 0 0\n"
    )
    result = unwrap(text)
    assert result.output == "the tool's\nown words"
    assert (result.version, result.pinned, result.cpu_seconds) == ("Version: 6.06", "0-3", 1.6)
    assert unwrap("just words").output == "just words"
    assert unwrap("==> about <==\nticks x\n==> output <==\no\n").cpu_seconds is None


@pytest.mark.parametrize(
    ("freedom", "probability", "value"),
    [(1, 0.975, 12.7062), (4, 0.975, 2.77645), (9, 0.975, 2.26216), (30, 0.975, 2.04227), (2, 0.95, 2.91999)],
)
def test_quantiles_of_students_t_are_those_of_the_tables(freedom: int, probability: float, value: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(value, abs=1e-4)
    assert t_quantile(1 - probability, freedom) == pytest.approx(-value, abs=1e-4)
    assert t_probability(value, freedom) == pytest.approx(probability, abs=1e-5)


def test_a_difference_has_its_interval_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, deviation 1; t for two degrees of freedom is 4.3027."""
    difference = paired_difference([10, 10, 10], [11, 12, 13])
    assert (difference.a, difference.b, difference.mean, difference.repeats) == (10, 12, 2, 3)
    assert difference.high - difference.mean == pytest.approx(4.30265 / 3**0.5, abs=1e-4)
    assert not difference.is_seen
    with pytest.raises(ValueError, match="two pairs"):
        paired_difference([1], [2])


@given(st.lists(st.floats(1, 100), min_size=2, max_size=20), st.floats(-50, 50))
def test_a_shift_is_found_and_turning_the_arms_turns_the_sign(values: list[float], shift: float) -> None:
    moved = [value + shift for value in values]
    difference, turned = paired_difference(values, moved), paired_difference(moved, values)
    assert difference.mean == pytest.approx(shift, abs=1e-9)
    assert (difference.low, difference.high) == pytest.approx((-turned.high, -turned.low), abs=1e-9)
    assert difference.low <= difference.mean <= difference.high


def test_the_answer_says_who_is_better_or_that_no_difference_is_seen() -> None:
    difference = paired_difference([10, 10.1, 9.9, 10], [5, 5.1, 5, 4.9])
    assert "TCP is worse by 50.0 %" in describe(difference, "RDMA", "TCP", "bandwidth", "Gb/s")
    assert "TCP is better by 50.0 %" in describe(difference, "RDMA", "TCP", "half_round_trip", "us")
    none = paired_difference([10, 11, 9, 10], [10.5, 10, 9.5, 10.2])
    assert "no difference seen (" in describe(none, "a", "b", "bandwidth", "Gb/s")
    alike = paired_difference([10, 10], [9.9999, 10.0001])
    assert "no difference seen (+0.0 % to +0.0 %, " in describe(alike, "a", "b", "bandwidth", "Gb/s")
    from_nothing = paired_difference([0, 0, 0], [1, 1.1, 0.9])
    assert "b is better by 1.0 Gb/s (+0.8 Gb/s to +1.2 Gb/s, " in describe(from_nothing, "a", "b", "bandwidth", "Gb/s")


def test_the_difference_of_repeats_measured_apart_is_by_welch() -> None:
    """By hand: means 10 and 13, squared errors 1/3 and 4/3, so (5/3)² / (1/18 + 16/18) = 2.941 degrees of freedom."""
    difference = separate_difference([9, 10, 11], [11, 13, 15])
    assert (difference.a, difference.b, difference.mean, difference.repeats) == (10, 13, 3, 3)
    assert difference.high - difference.mean == pytest.approx(t_quantile(0.975, 2.9411764) * (5 / 3) ** 0.5, abs=1e-6)
    assert difference.low < 0 < difference.high
    assert separate_difference([9, 10, 11], [21, 23, 25, 23]).is_seen
    same = separate_difference([5, 5], [5, 5])
    assert (same.low, same.high, same.is_seen) == (0, 0, False)
    with pytest.raises(ValueError, match="two repeats"):
        separate_difference([1, 2, 3], [2])


@given(st.lists(st.floats(1, 100), min_size=2, max_size=20), st.lists(st.floats(1, 100), min_size=2, max_size=20))
def test_apart_the_order_of_repeats_means_nothing_and_turning_the_arms_turns_the_sign(
    a: list[float], b: list[float]
) -> None:
    difference, turned = separate_difference(a, b), separate_difference(b[::-1], a[::-1])
    assert (difference.low, difference.high) == pytest.approx((-turned.high, -turned.low), abs=1e-6)
    assert difference.low <= difference.mean <= difference.high
