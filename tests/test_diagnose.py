"""diagnose from a user's point of view: a run on disk, its verdicts as text, as JSON and in the report."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import takewhile
from pathlib import Path

import pytest

from railbed.model.meters import Sample, SeriesKey
from railbed.store import OpenRun, open_run
from railbed.store.series import SeriesWriter
from tests.support.cli import railbed, start
from tests.support.runs import CLUSTER, NODES, STARTED, plain_run, training_run

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("runs_here")]
SLOW = range(60, 80)
"""Seconds in which packets of node2 wait for its link."""


def sampled_run(*, slow: bool) -> Path:
    """Write a training on two nodes with samples of their interfaces."""
    folder = training_run(steps=300, fails_at=None)
    layouts = {
        node: tuple(SeriesKey(node, name, "rail0") for name in ("qdisc_overlimits", "net_tx_bytes")) for node in NODES
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


def test_since(tmp_path: Path) -> None:
    sampled_run(slow=True)
    clock = datetime.fromtimestamp(STARTED + 70).isoformat(timespec="seconds")
    during = railbed(tmp_path, "diagnose", "--since", clock)
    assert (during.code, "1 verdict since " in during.out, "link_slow" in during.out) == (1, True, True), during
    after = datetime.fromtimestamp(STARTED + SLOW.stop + 5).isoformat(timespec="seconds")
    later = railbed(tmp_path, "diagnose", "--since", after, "--json")
    assert (later.code, {finding["verdict"] for finding in later.findings}) == (0, {"ok", "skipped"}), later
    assert "Nothing unusual since " in railbed(tmp_path, "diagnose", "--since", after).out
    assert railbed(tmp_path, "diagnose", "--since", "1000d").code == 1
    nonsense = railbed(tmp_path, "diagnose", "--since", "soon")
    assert (nonsense.code, nonsense.out) == (2, "")
    assert nonsense.err.startswith("railbed: --since 'soon' is neither a time nor a duration\n")


@contextmanager
def slow_run() -> Iterator[tuple[OpenRun, threading.Event]]:
    """Open a run in which packets of node2 wait for its link; if the event is set, not in its last ten seconds."""
    over, ended = threading.Event(), threading.Event()
    layouts = {node: (SeriesKey(node, "qdisc_overlimits", "rail0"),) for node in NODES}
    with (
        open_run("watch", cluster_name="lab", cluster_text=CLUSTER) as run,
        SeriesWriter(run.folder) as writer,
    ):
        begin, waited = time.time(), 0

        def write(when: float) -> None:
            nonlocal waited
            waited += 0 if when < begin - 10 or over.is_set() else 30
            for node in NODES:
                writer.append(Sample(node, when, layouts[node], (waited if node == "node2" else 0,)))

        def write_on() -> None:
            while not ended.wait(0.2):
                write(time.time())

        for second in range(60):
            write(begin - 60 + second)
        thread = threading.Thread(target=write_on)
        thread.start()
        try:
            yield run, over
        finally:
            ended.set()
            thread.join()
            for second in range(10):
                write(time.time() + second)
            run.finish("done", 0)


def test_a_run_in_progress_is_followed_until_it_ends(tmp_path: Path) -> None:
    with slow_run() as (run, over):
        process = start(tmp_path, "diagnose", "--follow", "--json")
        lines = [process.stdout.readline()]
        over.set()
    out, err = process.communicate(timeout=120)
    first, last = (json.loads(line) for line in [*lines, *out.splitlines()])
    for finding in (first, last):
        assert (finding["check"], finding["subject"], finding["verdict"]) == ("link_slow", "node2/rail0", "fail")
    assert first["since"] == last["since"]
    assert (first["until"], last["until"] > first["since"]) == (None, True)
    assert f"{run.folder.name} is running; Ctrl-C closes this view" in err.decode()
    assert process.returncode == 1


def test_following_as_text_into_a_pipe_and_ctrl_c(tmp_path: Path) -> None:
    with slow_run() as (run, _):
        process = start(tmp_path, "diagnose", "--follow", run.folder.name)
        lines = list(takewhile(lambda line: b"packets waited for" not in line, iter(process.stdout.readline, b"")))
        assert f"{run.folder.name}  watch on lab, " in lines[0].decode()
        assert "link_slow" in b"".join(lines).decode()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 130
        command = f"railbed diagnose --follow {run.folder.name}"
        assert f"{run.folder.name} is still running: `{command}` shows its verdicts again" in err.decode()
    assert "link_slow" in railbed(tmp_path, "diagnose", run.folder.name).out, "the run was left alone"


def test_following_a_run_that_has_ended_shows_its_verdicts(tmp_path: Path) -> None:
    run = sampled_run(slow=True)
    shown = railbed(tmp_path, "diagnose", "--follow", run.name)
    assert (shown.code, shown.err, "link_slow" in shown.out) == (1, "", True), shown
