"""`railbed compare A B`: what changed, what did not, what is unclear, and what else differs."""

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


def test_a_change_beyond_noise_is_reported_and_noise_is_not(tmp_path: Path) -> None:
    before = run_of([10, 10.1, 9.9], [10, 14, 6], Verdict.OK)
    after = run_of([8, 8.1, 7.9], [8, 12, 5], Verdict.FAIL, more=True)
    records = railbed(tmp_path, "compare", before.name, after.name, "--json").records
    numbers = {
        record["of"]: (record["before"], record["after"], record["beyond_noise"])
        for record in records
        if "noise" in record
    }
    assert numbers == {"from a, test fast, to b": (10, 8, True), "from a, test noisy, to b": (10, 8, False)}
    (changed,) = [record for record in records if record["name"] == "finding"]
    assert (changed["before"][:2], changed["after"][:4]) == ("ok", "fail")
    shown = railbed(tmp_path, "compare", before.name, after.name)
    assert "1 number changed, 0 did not, 1 has samples that vary too much before is" in shown.out.replace("\n", " ")
    assert shown.out.startswith("changed:\n")
    assert "may have changed, but there are too few samples or they vary too much:\n" in shown.out
    assert shown.out.count("−20 %") == 2
    assert f"only in {after.name}: measure bandwidth (test new)" in shown.out
    assert "the cluster files are equal" in shown.out


def test_what_changed_in_the_cluster_is_reported(tmp_path: Path) -> None:
    before, after = run_of([1], [1], Verdict.OK), run_of([1], [1], Verdict.OK)
    text = (after / "cluster.yaml").read_text()
    (after / "cluster.yaml").write_text(text.replace("speed: 10", "speed: 25"))
    records = railbed(tmp_path, "compare", before, after, "--json").records
    assert [
        (record["subject"], record["before"], record["after"]) for record in records if record["kind"] == "change"
    ] == [("rails.rail0.speed", "10", "25")]
    (after / "cluster.yaml").write_text("nonsense: [")
    assert "cannot be compared" in railbed(tmp_path, "compare", before, after).out


def test_training_runs_are_compared_and_wrong_names_are_reported(tmp_path: Path) -> None:
    first, second = training_run(steps=20, fails_at=None), training_run(steps=20, fails_at=None)
    result = railbed(tmp_path, "compare", first, second, "--json")
    assert {"loss", "tokens_per_second"} <= {record["name"] for record in result.records}
    assert railbed(tmp_path, "compare", first, "nothing").code == 2
    assert railbed(tmp_path, "compare", first).code == 2


def test_many_changes_are_not_all_listed_and_each_is_reported_in_short(tmp_path: Path) -> None:
    """Labels that all share are left out; a count has no unit; --all lists the rest."""

    def counts(value: float) -> list[Record]:
        same: dict[str, str | int] = {"test": "iperf3", "tool": "iperf3", "rail": "rail0", "to": "b"}
        names = [f"n{number}" for number in range(50)]
        return [Measurement(name="retransmits", value=value, unit="1", labels={**same, "from": name}) for name in names]

    before, after = (plain_run(counts(value), verb="bench").name for value in (10.0, 1234.0))
    shown = railbed(tmp_path, "compare", before, after).out.splitlines()
    assert shown[0].startswith("may have changed, but there are too few samples")
    assert shown[2].split() == ["retransmits", "n0", ">", "b", "10", "1,234", "+12,240", "%", "(×", "123)"]
    assert len([line for line in shown if line.startswith("retransmits")]) == 40
    assert "10 more with smaller changes: --all shows them" in shown
    everything = railbed(tmp_path, "compare", before, after, "--all").out.splitlines()
    assert len([line for line in everything if line.startswith("retransmits")]) == 50


def test_a_large_change_is_never_called_unchanged(tmp_path: Path) -> None:
    """Three times as much in noise, and a sixth in quiet: the one may have changed, the other has."""
    before = run_of([60, 61, 59], [1.0, 1.1, 3.2], Verdict.OK)
    after = run_of([10.2, 10.3, 10.1], [2.88, 1.2, 9.4], Verdict.OK)
    records = railbed(tmp_path, "compare", before, after, "--json").records
    numbers = {record["of"].split(",")[1]: record for record in records if "outcome" in record}
    assert {name: entry["outcome"] for name, entry in numbers.items()} == {
        " test fast": "changed",
        " test noisy": "unclear",
    }
    assert numbers[" test noisy"]["why"] == "its samples vary too much"
    assert numbers[" test fast"]["samples"] == [3, 3]
    shown = railbed(tmp_path, "compare", before, after).out
    assert "−83 % (÷ 5.88)" in shown
    assert "+162 % (× 2.62)" in shown
    everything = railbed(tmp_path, "compare", before, after, "--all").out
    assert "did not change:" not in everything
    backwards = railbed(tmp_path, "compare", after, before).out
    assert "+488 % (× 5.88)" in backwards
    assert all(len(line) <= 80 for line in (shown + backwards).splitlines())


def test_once_is_not_enough(tmp_path: Path) -> None:
    before, after = run_of([10], [7], Verdict.OK), run_of([20], [7], Verdict.OK)
    records = railbed(tmp_path, "compare", before, after, "--json").records
    outcomes = {
        record["before"]: (record["outcome"], record["why"], record["noise"])
        for record in records
        if "outcome" in record
    }
    assert outcomes == {10: ("unclear", "too few samples", None), 7: ("unchanged", "", 0)}
    shown = railbed(tmp_path, "compare", before, after).out
    assert "0 numbers changed, 1 did not, 1 has too few samples\n" in shown


def test_settings_that_differ_are_listed(tmp_path: Path) -> None:
    """The recipe, the arguments, what ranks chose, and versions; and what only one run has."""
    before = training_run(steps=20, fails_at=None)
    after = training_run(steps=30, fails_at=12)
    records = (after / "records.jsonl").read_text()
    (after / "records.jsonl").write_text(records.replace('"precision":"fp32"', '"precision":"bf16"'))
    summary = (after / "run.json").read_text()
    (after / "run.json").write_text(summary.replace('"lab.yaml"', '"lab.yaml","--set","steps=30"'))
    compared = railbed(tmp_path, "compare", before, after, "--json").records
    settings = {record["of"]: (record["before"], record["after"]) for record in compared if record["name"] == "setting"}
    assert settings["recipe steps"] == ("20", "30")
    assert settings["chosen precision"] == ("fp32", "bf16")
    assert settings["command"][1].endswith("--set steps=30")
    assert not [key for key in settings if "peak_flops" in key]
    alone = {
        (record["name"], record["of"]): record["only_in"] for record in compared if record["name"].startswith("only_")
    }
    assert alone["only_event", "restart"] == "after"
    shown = railbed(tmp_path, "compare", before, after).out
    assert "recipe steps: 20 → 30" in shown
    assert f"only in {after.name}: events " in shown
    assert "restart" in shown


def test_runs_of_different_verbs_are_not_compared_setting_by_setting(tmp_path: Path) -> None:
    result = railbed(tmp_path, "compare", run_of([1], [1], Verdict.OK), training_run(steps=20, fails_at=None), "--json")
    settings = {
        record["of"]: (record["before"], record["after"]) for record in result.records if record["name"] == "setting"
    }
    assert sorted(settings) == ["choices of ranks", "command", "settings of a recipe"]
    assert settings["choices of ranks"][0] is None


def test_steps_are_compared_with_the_same_steps(tmp_path: Path) -> None:
    """A loss that falls is lower in a longer run; at the same steps it is the same."""

    def falling(steps: int) -> Path:
        return plain_run(
            [Measurement(name="loss", value=50 / step, unit="1", labels={"step": step}) for step in range(1, steps + 1)]
        )

    records = railbed(tmp_path, "compare", falling(20), falling(60), "--json").records
    (loss,) = [record for record in records if record["name"] == "loss"]
    assert (loss["outcome"], loss["samples"]) == ("unchanged", [10, 10])
    assert loss["before"] == loss["after"]


def test_nodes_and_ranks_of_one_run_only_are_named(tmp_path: Path) -> None:
    def steps(*ranks: int) -> list[Record]:
        return [
            Measurement(name="loss", value=1.0, unit="1", labels={"step": 1, "rank": rank, "node": f"node{rank + 1}"})
            for rank in ranks
        ]

    before, after = plain_run(steps(0, 1)), plain_run(steps(0))
    records = railbed(tmp_path, "compare", before, after, "--json").records
    alone = {
        (record["name"], record["of"], record["only_in"]) for record in records if record["name"].startswith("only_")
    }
    assert alone == {("only_node", "node2", "before"), ("only_rank", "rank 1", "before")}
    shown = railbed(tmp_path, "compare", before, after).out
    assert f"only in {before.name}: node node2" in shown


def test_numbers_that_no_quotient_reaches(tmp_path: Path) -> None:
    """The logarithm of their quotient would be that of zero."""
    for first, second in ((1e-300, 1e300), (1e300, 1e-300), (5e-324, 1.0), (1e308, -1e308), (0.0, 1e308)):
        before, after = run_of([first] * 3, [first], Verdict.OK), run_of([second] * 3, [second], Verdict.OK)
        for options in (["--json"], ["--all"], ["-o", "c.html"]):
            result = railbed(tmp_path, "compare", before, after, *options)
            assert result.code == 0, result


@pytest.mark.parametrize("values", [(1e-300, 1e300), (1e300, 1e-300), (5e-324, 2.0), (0.0, 1.0), (-1e-300, -1e300)])
def test_numbers_too_far_apart_to_divide_are_compared(tmp_path: Path, values: tuple[float, float]) -> None:
    before, after = (run_of([value], [1], Verdict.OK) for value in values)
    result = railbed(tmp_path, "compare", before, after, "--json")
    assert result.code == 0
    assert railbed(tmp_path, "compare", before, after).code == 0
