"""`railbed compare A B`: what changed beyond noise, and what did not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from railbed.model.record import Measurement, Record, Verdict
from tests.support.cli import railbed
from tests.support.runs import finding, plain_run, training_run

pytestmark = pytest.mark.whole


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def run_of(fast: Sequence[float], noisy: Sequence[float], verdict: Verdict, *, more: bool = False) -> Path:
    records: list[Record] = [finding(verdict)]
    for test, values in (("fast", fast), ("noisy", noisy)):
        for repeat, value in enumerate(values, 1):
            labels: dict[str, str | int] = {"test": test, "from": "a", "to": "b", "repeat": repeat, "trial": repeat}
            records.append(Measurement(name="bandwidth", value=value, unit="Gb/s", labels=labels))
    if more:
        records.append(Measurement(name="bandwidth", value=1.0, unit="Gb/s", labels={"test": "new"}))
    return plain_run(records, verb="bench")


def test_a_change_beyond_noise_is_told_and_noise_is_not(tmp_path: Path) -> None:
    before = run_of([10, 10.1, 9.9], [10, 14, 6], Verdict.OK)
    after = run_of([8, 8.1, 7.9], [8, 12, 5], Verdict.FAIL, more=True)
    told = railbed(tmp_path, "compare", before.name, after.name, "--json").records
    numbers = {one["of"]: (one["before"], one["after"], one["beyond_noise"]) for one in told if "noise" in one}
    assert numbers == {"from a, test fast, to b": (10, 8, True), "from a, test noisy, to b": (10, 8, False)}
    (changed,) = [one for one in told if one["name"] == "finding"]
    assert (changed["before"][:2], changed["after"][:4]) == ("ok", "fail")
    shown = railbed(tmp_path, "compare", before.name, after.name)
    assert "1 number changed beyond noise, 1 did not; 1 only in" in shown.out.replace("\n", " ")
    assert "−20 %" in shown.out
    assert "the cluster files are equal" in shown.out


def test_what_changed_in_the_cluster_is_told(tmp_path: Path) -> None:
    before, after = run_of([1], [1], Verdict.OK), run_of([1], [1], Verdict.OK)
    text = (after / "cluster.yaml").read_text()
    (after / "cluster.yaml").write_text(text.replace("speed: 10", "speed: 25"))
    told = railbed(tmp_path, "compare", before, after, "--json").records
    assert [(one["subject"], one["before"], one["after"]) for one in told if one["kind"] == "change"] == [
        ("rails.rail0.speed", "10", "25")
    ]
    (after / "cluster.yaml").write_text("nonsense: [")
    assert "cannot be compared" in railbed(tmp_path, "compare", before, after).out


def test_training_runs_are_compared_and_wrong_names_are_told(tmp_path: Path) -> None:
    one, other = training_run(steps=20, fails_at=None), training_run(steps=20, fails_at=None)
    told = railbed(tmp_path, "compare", one, other, "--json")
    assert {"loss", "tokens_per_second"} <= {record["name"] for record in told.records}
    assert railbed(tmp_path, "compare", one, "nothing").code == 2
    assert railbed(tmp_path, "compare", one).code == 2


def test_many_changes_are_not_all_listed_and_each_is_told_in_short(tmp_path: Path) -> None:
    """Labels that all share are left out; a count has no unit; --all lists the rest."""

    def counts(value: float) -> list[Record]:
        same: dict[str, str | int] = {"test": "iperf3", "tool": "iperf3", "rail": "rail0", "to": "b"}
        names = [f"n{number}" for number in range(50)]
        return [Measurement(name="retransmits", value=value, unit="1", labels={**same, "from": name}) for name in names]

    before, after = (plain_run(counts(value), verb="bench").name for value in (10.0, 1234.0))
    shown = railbed(tmp_path, "compare", before, after).out.splitlines()
    assert shown[1].split() == ["retransmits", "n0", ">", "b", "10", "1,234", "+12,240", "%"]
    assert len([line for line in shown if line.startswith("retransmits")]) == 40
    assert "10 more that changed less: --all shows them" in shown
    everything = railbed(tmp_path, "compare", before, after, "--all").out.splitlines()
    assert len([line for line in everything if line.startswith("retransmits")]) == 50
