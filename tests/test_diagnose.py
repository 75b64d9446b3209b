"""diagnose from a user's point of view: a run on disk, its verdicts as text, as JSON and in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.model.series import Sample, Series
from railbed.store.series import SeriesWriter
from tests.support.cli import railbed
from tests.support.runs import NODES, STARTED, plain_run, training_run

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("runs_here")]
SLOW = range(60, 80)
"""Seconds in which packets of node2 wait for its link."""


def sampled_run(*, slow: bool) -> Path:
    """Write a training on two nodes with samples of their interfaces."""
    folder = training_run(steps=300, fails_at=None)
    layouts = {
        node: tuple(Series(node, name, "rail0") for name in ("qdisc_overlimits", "net_tx_bytes")) for node in NODES
    }
    waited, sent = dict.fromkeys(NODES, 7), 0
    with SeriesWriter(folder) as writer:
        for second in range(125):
            if slow and second in SLOW:
                waited["node2"] += 90
            sent += 3_000_000 if slow and second in SLOW else 10_000_000
            for node in NODES:
                values = (waited[node], sent)
                writer.append(Sample(node, STARTED + second, layouts[node], values))
    return folder


def test_a_slow_link_is_explained(tmp_path: Path) -> None:
    run = sampled_run(slow=True)
    shown = railbed(tmp_path, "diagnose")
    assert shown.code == 1, shown
    assert "fail     node2/rail0  link_slow  at " in shown.out
    assert "for 20.0 s, step 131" in shown.out
    assert "certain" in shown.out
    assert "qdisc_overlimits on node2/rail0: ▁" in shown.out
    # The command of the remedy has the cluster file that the run was started with.
    assert "`railbed bench tcp -c lab.yaml`" in " ".join(shown.out.split())
    assert "1 verdict; " in shown.out
    assert "was not measured" not in shown.out
    everything = railbed(tmp_path, "diagnose", run.name, "--all")
    assert "pause_rx_frames was not measured on at least two ports of rail0" in " ".join(everything.out.split())


def test_as_records(tmp_path: Path) -> None:
    run = sampled_run(slow=True)
    result = railbed(tmp_path, "diagnose", run, "--json")
    assert result.code == 1
    (verdict,) = [finding for finding in result.findings if finding["verdict"] == "fail"]
    assert (verdict["check"], verdict["subject"], verdict["certainty"]) == ("link_slow", "node2/rail0", "certain")
    assert verdict["since"] == STARTED + SLOW.start - 1
    assert verdict["until"] == STARTED + SLOW.stop - 1
    assert {finding["verdict"] for finding in result.findings} == {"fail", "ok", "skipped"}


def test_nothing_unusual(tmp_path: Path) -> None:
    sampled_run(slow=False)
    shown = railbed(tmp_path, "diagnose")
    assert (shown.code, shown.err) == (0, ""), shown
    assert "Nothing unusual: " in shown.out


def test_the_report_says_what_happened(tmp_path: Path) -> None:
    sampled_run(slow=True)
    result = railbed(tmp_path, "report", "--format", "md", "--output", "-")
    assert result.code == 0, result
    text = " ".join(result.out.split())
    assert "What happened" in text
    assert "node2/rail0: link" in text
    assert "something happened to node2/rail0" in text
    assert "qdisc_overlimits on node2/rail0: ▁" in text
    page = railbed(tmp_path, "report")
    assert page.code == 0, page


def test_a_run_without_series_is_refused(tmp_path: Path) -> None:
    run = plain_run(verb="check")
    refused = railbed(tmp_path, "diagnose", run.name)
    assert (refused.code, f"{run.name} has no time series to diagnose" in refused.err) == (2, True), refused
    nothing = railbed(tmp_path, "diagnose")
    assert (nothing.code, "there is no run with time series in runs" in nothing.err) == (2, True), nothing
    assert railbed(tmp_path, "diagnose", "20010101-000000-train").code == 2


def test_damage_is_reported(tmp_path: Path) -> None:
    run = sampled_run(slow=True)
    with (run / "records.jsonl").open("ab") as file:
        file.write(b'{"kind": "find\n\x00\n')
    shown = railbed(tmp_path, "diagnose")
    assert "2 damaged parts of this run could not be read: verdicts may be missing" in shown.out
    assert "node2/rail0  link_slow" in shown.out
    (run / "cluster.yaml").write_text("name: [")
    refused = railbed(tmp_path, "diagnose")
    assert (refused.code, "has no readable copy of its cluster file" in refused.err) == (2, True), refused
    assert railbed(tmp_path, "report").code == 0


def test_a_rule_is_explained(tmp_path: Path) -> None:
    shown = railbed(tmp_path, "diagnose", "--explain", "pause_storm")
    assert shown.code == 0
    assert "pause_storm  a pause storm" in shown.out
    (page,) = railbed(tmp_path, "diagnose", "--explain", "pause_storm", "--json").records
    assert page["kind"] == "rule"
    unknown = railbed(tmp_path, "diagnose", "--explain", "pause_strom")
    assert (unknown.code, "did you mean pause_storm?" in unknown.err) == (2, True)
    unknown = railbed(tmp_path, "diagnose", "--explain", "everything")
    assert (unknown.code, "the rules are congestion_cnp_ignored, " in unknown.err) == (2, True)
