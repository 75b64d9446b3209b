"""Two Slurm jobs at once, of two users, on the same nodes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cli import RAILBED, Result
from tests.support.labs import RunningLab
from tests.support.slurm import WAIT_SECONDS, allocation, user_of
from tests.support.training import events, losses

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]


def test_two_trainings_on_the_same_nodes(slurm_lab: RunningLab, slurm_python: dict[str, Path]) -> None:
    """Both reach their end, on the ranks and the port of their own, and compute what each computes alone."""
    options = ("small.yaml", "-c", "slurm", "--set", "steps=4", "--no-check", "--sample", "0")
    nodes = ["node1", "node2"]
    with ExitStack() as stack:
        users = [stack.enter_context(user_of(slurm_lab, name, slurm_python[name])) for name in ("root", "nobody")]
        shared = ("--oversubscribe", f"--nodelist={','.join(nodes)}")
        inside = [user.inside(stack.enter_context(allocation(user, *shared))) for user in users]
        first, second = (stack.enter_context(user.training(*options)) for user in inside)
        codes = [run.end() for run in (first, second)]
    assert codes == [0, 0], (first.last_events(), second.last_events())
    for run in (first, second):
        (generation,) = events(run.records, "generation")
        assert generation["data"]["nodes"] == nodes
        assert events(run.records, "intrusion") == []
    assert losses(first.records) == pytest.approx(losses(second.records), rel=1e-6)


@pytest.mark.soak  # test_slurm_verbs.py measures in one job
def test_two_benchmarks_on_the_same_nodes(slurm_lab: RunningLab) -> None:
    suite = "steps:\n  - {test: iperf3, seconds: 1, direction: one}\n"
    with ExitStack() as stack:
        users = [stack.enter_context(user_of(slurm_lab, name)) for name in ("root", "nobody")]
        inside = [user.inside(stack.enter_context(allocation(user, "-N3", "--oversubscribe"))) for user in users]
        for user in users:
            (user.folder / "suite.yaml").write_text(suite)
        words = (RAILBED, "bench", "suite.yaml", "-c", "slurm", "--json")
        processes = [stack.enter_context(user.started(*words)) for user in inside]
        outputs = [process.communicate(timeout=WAIT_SECONDS)[0].decode() for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        result = Result(process.returncode, output, "")
        failed = {finding["check"] for finding in result.findings if finding["verdict"] == "fail"}
        assert result.code in (0, 1), result.problems
        assert failed <= {"bench_outlier"}, "both share the links, not always equally"
        measured = [record["labels"] for record in result.records if record.get("name") == "bandwidth"]
        assert {(labels["from"], labels["to"]) for labels in measured} == {
            ("node1", "node2"),
            ("node1", "node3"),
            ("node2", "node3"),
        }
