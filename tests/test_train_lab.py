"""Training on a lab of namespaces: faults in the middle of it, and the same loss in the end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.support.cli import RAILBED, environment
from tests.support.labs import RunningLab, call, kept, running_lab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("train")]
RECIPE = """
extends: tiny
steps: 120
model: {layers: 2, heads: 2, width: 32, context: 32, vocabulary: 512}
batch: {sequences: 12}
checkpoint: {steps: 10}
evaluation: {every: 0}
"""
SECONDS = 300


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    folder = tmp_path_factory.mktemp("lab")
    with running_lab(folder, "--nodes", "3") as lab:
        (folder / "small.yaml").write_text(RECIPE)
        # All nodes see one disk; what they put on it is below the test's own folder.
        text = lab.cluster.read_text().replace("training:", f"training:\n  workdir: {folder}")
        (folder / "cluster.yaml").write_text(text)
        yield lab


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    yield lab
    assert lab.fault("heal").code == 0


def train(
    lab: RunningLab, *options: str, faults: Mapping[int, Sequence[str]] | None = None, until: str = ""
) -> tuple[int, list[dict[str, Any]]]:
    """Train, put faults in force when their step is reached, and interrupt it where all three nodes are back."""
    pending = dict(faults or {})
    records = []
    with subprocess.Popen(
        [RAILBED, "train", *options, "--json"],
        cwd=lab.folder,
        env=environment(**kept(), RAILBED_RUNS=str(lab.folder / "runs")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (no threads)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            record = json.loads(line)
            records.append(record)
            step = record.get("labels", {}).get("step", 0)
            for at in [at for at in pending if step >= at]:
                assert lab.fault(*pending.pop(at)).code == 0
            if until and until in record.get("message", ""):
                process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) in (0, 3, 130), process.stderr.read().decode()
    assert not pending
    return process.returncode, records


def losses(records: Sequence[dict[str, Any]]) -> dict[int, float]:
    """Return the last loss told of each step: that of the history which went on."""
    return {one["labels"]["step"]: one["value"] for one in records if one.get("name") == "loss"}


def events(records: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [one for one in records if one["kind"] == "event" and one["name"] == name]


@pytest.fixture(scope="module")
def undisturbed(lab: RunningLab) -> dict[int, float]:
    """The same training on one rank of this machine, without faults."""
    code, records = train(lab, "small.yaml", "--ranks", "1", "--cluster", "local")
    assert code == 0
    return losses(records)


@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        (["kill", "node2"], "no word"),
        (["freeze", "node3"], "no word"),
        (["cut", "node1"], "no step"),
    ],
)
def test_training_survives_a_node_and_loses_nothing(
    healed: RunningLab, undisturbed: dict[int, float], fault: list[str], noticed: str
) -> None:
    code, records = train(healed, "small.yaml", "-c", "cluster.yaml", "--min-nodes", "2", faults={40: fault})
    assert code == 0
    (restart, *_) = events(records, "restart")
    assert noticed in restart["message"] or "lost the others" in restart["message"]
    generations = [one["data"]["nodes"] for one in events(records, "generation")]
    assert len(generations[0]) == 3
    assert [node for node in ("node1", "node2", "node3") if node != fault[1]] in generations
    assert losses(records) == pytest.approx(undisturbed, rel=2e-4)
    _files_tell_one_history(max(Path(healed.folder, "runs").glob("*-train*")), records)
    assert proof(records)["observed"].startswith("gradients went over TCP")


def _files_tell_one_history(run: Path, records: Sequence[dict[str, Any]]) -> None:
    """Of steps that were done again, metrics and curves have the last."""
    metrics = json.loads((run / "training_metrics.json").read_text())
    assert {row["step"]: row["loss"] for row in metrics["steps"]} == losses(records)
    assert [one["why"] for one in metrics["restarts"]] == [one["message"] for one in events(records, "restart")]
    curves = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    shown = [(point.step, point.value) for point in curves.Scalars("loss")]
    assert shown == [(step, pytest.approx(loss)) for step, loss in sorted(losses(records).items())]


def proof(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [one for one in records if one["kind"] == "finding" and one["check"] == "gradients_over_rdma"]
    return found


def test_gloo_is_proven_to_be_tcp(lab: RunningLab) -> None:
    options = ["--transport", "gloo", "--set", "steps=20", "--set", "wire=bf16"]
    code, records = train(lab, "small.yaml", "-c", "cluster.yaml", *options)
    assert code == 0
    found = proof(records)
    assert found["verdict"] == "warn"
    assert "on all 3 nodes, because node1 has no RDMA: no RDMA device in the cluster file" in found["observed"]
    moved = {
        (one["name"], one["labels"]["node"]): one["value"]
        for one in records
        if one["kind"] == "measurement" and one["labels"].get("bound", "least") == "least"
    }
    for node in ("node1", "node2", "node3"):
        # A ring of three sends each byte four thirds of a time, with headers.
        assert 4 / 3 < moved["tcp_bytes", node] / moved["gradient_bytes", node] < 1.6
        assert moved["rdma_bytes", node] == 0


def test_a_check_proves_it_without_a_model(lab: RunningLab) -> None:
    result = call(lab.folder, "check", "reachable", "--prove", "training", "-c", "cluster.yaml", "--json")
    assert result.code == 0, result
    found = proof(result.records)
    assert (found["verdict"], found["subject"]) == ("warn", "cluster")
    assert found["observed"].startswith("gradients went over TCP: 72 MB on all 3 nodes")
    refused = lab.railbed("check", "--prove", "storage")
    assert refused.code == 2


def test_the_environment_is_shown_with_its_reasons(lab: RunningLab) -> None:
    shown = lab.railbed("train", "--show-env", "--json")
    assert shown.code == 0, shown
    for record, node in zip(shown.records, ("node1", "node2", "node3"), strict=True):
        assert (record["node"], record["rdma"]) == (node, False)
        assert record["obstacle"] == "no RDMA device in the cluster file"
        assert [(line["name"], line["value"]) for line in record["lines"]] == [("GLOO_SOCKET_IFNAME", "rail0")]
    assert "no RDMA: no RDMA device in the cluster file" in lab.railbed("train", "--show-env").out


def test_a_node_that_comes_back_is_taken_back(healed: RunningLab, undisturbed: dict[int, float]) -> None:
    faults = {20: ["kill", "node3"], 45: ["heal", "node3"]}
    options = ["small.yaml", "-c", "cluster.yaml", "--min-nodes", "2", "--set", "steps=100000"]
    code, records = train(healed, *options, faults=faults, until="node3 came back")
    assert code == 130
    assert [one["data"]["nodes"] for one in events(records, "generation")][1] == ["node1", "node2"]
    assert losses(records)[1] == pytest.approx(undisturbed[1], rel=1e-3)


def test_a_control_that_is_killed_leaves_no_rank(lab: RunningLab) -> None:
    process = subprocess.Popen(
        [RAILBED, "train", "small.yaml", "-c", "cluster.yaml", "--set", "steps=100000", "--json"],
        cwd=lab.folder,
        env=environment(**kept(), RAILBED_RUNS=str(lab.folder / "runs")),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("name") == "loss":
            break
    process.kill()
    process.wait()
    process.stdout.close()
    look = (
        "for i in $(seq 40); do pgrep -f 'railbed.(train.worker|launch.agent)' >/dev/null || exit 0; sleep 0.2; done; "
        "exit 1"
    )
    for node in ("node1", "node2", "node3"):
        assert lab.shell(node, look).code == 0


def test_a_run_goes_on_from_its_last_good_checkpoint(lab: RunningLab) -> None:
    """The newest checkpoint is damaged on every node, so the one before it is used."""
    options = ["--set", "steps=60", "--set", "shares=equal"]
    code, records = train(lab, "small.yaml", "-c", "cluster.yaml", *options)
    assert code == 0
    (begun,) = events(records, "training")
    for newest in Path(lab.folder, ".railbed", "runs", begun["data"]["run"]).glob("*/checkpoints/step-00000060"):
        weights = newest / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-7])
    run = max(Path(lab.folder, "runs").glob("*-train*")).name
    code, again = train(lab, "-c", "cluster.yaml", "--resume", run)
    assert code == 0
    assert any("step-00000060" in one["message"] for one in events(again, "checkpoint_failed"))
    assert min(losses(again)) == 51
    assert losses(again)[60] == pytest.approx(losses(records)[60], rel=1e-6)


def test_a_detached_run_is_stopped_on_every_node(lab: RunningLab) -> None:
    def call(*arguments: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [RAILBED, "train", *arguments, "--json"],
            cwd=lab.folder,
            env=environment(**kept(), RAILBED_RUNS=str(lab.folder / "runs")),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    (begun,) = call("small.yaml", "-c", "cluster.yaml", "--set", "steps=100000", "--detach")
    code, records = train(lab, "--attach", begun["data"]["run"], until="state of step 10 ")
    assert code == 130
    assert events(records, "generation")[0]["data"]["nodes"] == ["node1", "node2", "node3"]
    look = "pgrep -f 'railbed.(train.worker|launch.agent)'"
    assert [lab.shell(node, look).code for node in ("node1", "node2", "node3")] == [0, 0, 0]
    (stopped,) = call("--stop", begun["data"]["run"])
    assert stopped["data"]["status"] == "interrupted"
    assert [lab.shell(node, look).code for node in ("node1", "node2", "node3")] == [1, 1, 1]


def test_mpi_without_rdma_is_tcp_says_so_and_survives_a_node(healed: RunningLab, undisturbed: dict[int, float]) -> None:
    options = ["small.yaml", "-c", "cluster.yaml", "--min-nodes", "2", "--transport", "mpi"]
    code, records = train(healed, *options, faults={40: ["kill", "node2"]})
    assert code == 0
    generations = [one["data"]["nodes"] for one in events(records, "generation")]
    assert generations == [["node1", "node2", "node3"], ["node1", "node3"]]
    chosen = events(records, "transport")
    assert len(chosen) == 2
    assert all(one["message"].startswith("mpi over TCP (rail0): ") for one in chosen)
    assert losses(records) == pytest.approx(undisturbed, rel=2e-4)
    (judged,) = [one for one in records if one.get("check") == "gradients_over_rdma"]
    assert "gradients went over TCP" in judged["observed"]
