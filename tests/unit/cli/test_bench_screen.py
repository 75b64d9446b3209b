"""The table of a bench run: arms are separate, no column is empty, and nothing is cut at 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.cli.screens.bench import BenchScreen
from railbed.model.record import Finding, Measurement, Verdict


def measured(name: str, value: float, unit: str, **labels: str | int) -> Measurement:
    return Measurement(name=name, value=value, unit=unit, labels=labels)


def shown(capsys: pytest.CaptureFixture[str], *records: Finding | Measurement) -> list[str]:
    screen = BenchScreen(verbose=False)
    for record in records:
        screen.show(record)
    screen.finish(Path("runs/1"))
    return [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def pair(way: str, value: float, **labels: str | int) -> Measurement:
    ends: dict[str, str | int] = dict(zip(("from", "to"), way.split(">"), strict=True))
    return Measurement(
        name="bandwidth",
        value=value,
        unit="Gb/s",
        labels={"test": "ib_write_bw", "pattern": "pair", "rail": "rail0", **ends, **labels},
    )


def test_numbers_of_two_arms_are_not_one_number(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"MTU 1500": (4.0, 5.0, 6.0), "MTU 9000": (9.0, 9.5, 9.6)}
    output = shown(
        capsys, *(pair("n1>n2", measurement, arm=arm) for arm, repeats in values.items() for measurement in repeats)
    )
    assert [line.split() for line in output] == [
        ["arm", "test", "how", "over", "median"],
        ["MTU", "1500", "ib_write_bw", "pair", "rail0", "5.00", "Gb/s"],
        ["MTU", "9000", "ib_write_bw", "pair", "rail0", "9.50", "Gb/s"],
    ]


def test_of_many_ways_the_ends_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    output = shown(capsys, pair("n1>n2", 1.0), pair("n2>n1", 3.0), pair("n3>n1", 4.0))
    assert [line.split() for line in output] == [
        ["test", "how", "over", "paths", "lowest", "median", "highest"],
        ["ib_write_bw", "pair", "rail0", "3", "1.00", "3.00", "4.00", "Gb/s"],
    ]


def test_the_widest_rows_fit_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        measured("bus_bandwidth", 12345.0, "GB/s", test="reduce_scatter", size=2**30, engine="gloo"),
        measured(
            "half_round_trip", 812.5, "us", test="ib_write_lat", size=2, pattern="incast", rail="rail0", arm="unmarked"
        ),
        pair("n1>n2", 1.0, arm="unmarked"),
        pair("n2>n1", 1.0, arm="unmarked"),
    ]
    output = shown(capsys, *records)
    assert len(output) == 1 + 3, output
    assert not any("…" in line for line in output), output
    assert output[1].split()[:2] == ["reduce_scatter", "1G"]


def test_what_fails_again_and_again_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    failed = Finding(
        check="bench_measured", subject="n1", verdict=Verdict.FAIL, expected="a number", observed="no answer", why=""
    )
    output = shown(capsys, failed, failed, failed)
    assert output[0].split() == ["n1", "3", "failed"]
    assert output[1].split("  ")[-1] == "no answer (3 times); expected a number"


def test_an_answer_is_reported_once_and_one_that_is_not_there_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    answered, not_answered = (
        Finding(check="bench_difference", subject=subject, verdict=verdict, expected="", observed=observed, why="")
        for subject, verdict, observed in (
            ("bandwidth", Verdict.OK, "no difference seen"),
            ("half_round_trip", Verdict.UNKNOWN, "too few"),
        )
    )
    output = shown(capsys, answered, not_answered)
    assert output[:2] == ["bandwidth: no difference seen", "unknown half_round_trip: too few"]
    assert output[2].startswith("1 unknown · 1 ok"), output
    assert len(output) == 3


def test_a_small_collective_is_reported_by_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    labels: dict[str, str | int] = {"test": "all_reduce", "size": 8, "engine": "gloo"}
    output = shown(
        capsys,
        Measurement(name="collective_time", value=1194.0, unit="us", labels=labels),
        Measurement(name="algorithm_bandwidth", value=6.7e-06, unit="GB/s", labels=labels),
        Measurement(name="bus_bandwidth", value=1e-05, unit="GB/s", labels=labels),
    )
    assert [line.split() for line in output[1:]] == [
        ["all_reduce", "8", "gloo", "1,194", "µs"],
        ["all_reduce", "8", "gloo", "<0.001", "GB/s", "busbw"],
    ]
