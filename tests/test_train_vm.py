"""Training between virtual machines: gradients over RoCEv2 with the proof, over TCP where that is gone, and a kill."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.cli import RAILBED, environment
from tests.support.labs import RunningLab, kept, running_lab

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
STEPS = 4
SECONDS = 300
RECIPE = f"""
extends: tiny
steps: {STEPS}
model: {{layers: 1, heads: 2, width: 256, context: 16, vocabulary: 512}}
batch: {{sequences: 2}}
checkpoint: {{steps: 2}}
evaluation: {{every: 0}}
data: {{prompt: ""}}
"""
"""Few tokens and many parameters: 3.7 MB of gradients a step, beside which the words of the ranks over SSH are little,
and no more computing than an emulated processor does in a second."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "small.yaml").write_text(RECIPE)
    with running_lab(folder, "--kind", "vm", "--nodes", "2", "--with", "training") as lab:
        yield lab


@dataclass(frozen=True)
class Trained:
    """A run that ended."""

    code: int
    err: str
    records: list[dict[str, Any]]

    @property
    def losses(self) -> dict[int, float]:
        """The last loss told of each step: that of the history which went on."""
        return {one["labels"]["step"]: one["value"] for one in self.records if one.get("name") == "loss"}

    def events(self, name: str) -> list[dict[str, Any]]:
        return [one for one in self.records if one["kind"] == "event" and one["name"] == name]

    @property
    def proof(self) -> dict[str, Any]:
        (judged,) = [one for one in self.records if one.get("check") == "gradients_over_rdma"]
        return judged


def train(lab: RunningLab, transport: str, *, kill: str = "") -> Trained:
    """Train without the checks, which take as long as the training here; a node is killed when half is done."""
    command = [RAILBED, "train", "small.yaml", "--transport", transport, "--no-check", "--json", "-c", str(lab.cluster)]
    records = []
    with (
        (lab.folder / "err").open("w+") as err,
        subprocess.Popen(
            command,
            cwd=lab.folder,
            env=environment(**kept(), RAILBED_RUNS=str(lab.folder / "runs")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            records.append(json.loads(line))
            if kill and records[-1].get("labels", {}).get("step", 0) >= STEPS // 2:
                assert lab.fault("kill", kill).code == 0
                kill = ""
        process.wait(SECONDS)
        err.seek(0)
        return Trained(process.returncode, err.read(), records)


def packets(lab: RunningLab, node: str) -> int:
    """Return how many packets a node has sent over RDMA, as a person would look at it."""
    return int(lab.shell(node, "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts").out)


@pytest.fixture(scope="module")
def without_device(lab: RunningLab) -> tuple[Trained, Trained]:
    """Return what comes of mpi, and of auto, while one node has no RDMA device."""
    assert lab.shell("node2", "rdma link delete rxe0").code == 0
    asked, auto = train(lab, "mpi"), train(lab, "auto")
    assert lab.shell("node2", "rdma link add rxe0 type rxe netdev rail0").code == 0
    return asked, auto


@pytest.fixture(scope="module")
def over_tcp(without_device: tuple[Trained, Trained]) -> dict[int, float]:
    _, auto = without_device
    assert auto.code == 0, auto.err
    assert len(auto.losses) == STEPS
    return auto.losses


def test_mpi_is_refused_where_the_device_is_gone(without_device: tuple[Trained, Trained]) -> None:
    asked, _ = without_device
    assert asked.code == 3
    assert "mpi was asked for and does not work here: node" in asked.err
    assert "no RDMA device rxe0 port 1 on the node" in asked.err
    assert asked.losses == {}


def test_auto_takes_tcp_where_the_device_is_gone_and_says_why(without_device: tuple[Trained, Trained]) -> None:
    _, auto = without_device
    (chosen,) = auto.events("transport")
    assert (chosen["subject"], chosen["data"]["falls_back"]) == ("gloo", True)
    assert chosen["message"].startswith("gloo over TCP (rail0): ")
    assert "no RDMA device rxe0 port 1 on the node" in chosen["message"]
    assert "gradients went over TCP" in auto.proof["observed"]
    assert "no RDMA device rxe0" in auto.proof["observed"]


def test_gradients_cross_roce_and_the_loss_is_that_of_tcp(lab: RunningLab, over_tcp: dict[int, float]) -> None:
    before = {node: packets(lab, node) for node in ("node1", "node2")}
    done = train(lab, "mpi")
    assert done.code == 0, done.err
    assert done.losses == over_tcp
    (chosen,) = done.events("transport")
    assert chosen["subject"] == "mpi"
    assert chosen["message"].startswith("mpi over RDMA (rxe0:1): ")
    tried = [one for one in done.records if one.get("name") == "allreduce_trial_seconds"]
    assert tried
    assert all(one["value"] > 0 and one["labels"]["engine"] == "mpi" for one in tried)
    gradients = sum(one["value"] for one in done.records if one.get("name") == "bytes_sent") / 2
    assert gradients > STEPS * 3_500_000
    for node, count in before.items():
        # The path MTU of Soft-RoCE on rails of 9000 bytes: no packet carries more.
        assert (packets(lab, node) - count) * 4096 >= gradients, node
    assert done.proof["verdict"] == "ok", done.proof
    assert "of gradients crossed RoCE on both nodes" in done.proof["observed"]
    live = done.events("gradient_path")
    assert {one["data"]["verdict"] for one in live} == {"ok"}, [one["message"] for one in live]
    for node in live[-1]["data"]["nodes"]:
        # What the ranks said over TCP, counted by connection: how they meet, and nothing of the size of gradients.
        assert node["tcp_not_counted"] == ""
        assert node["rails"][0]["tcp_bytes"][1] < gradients / 20


def test_collectives_are_measured_over_rdma_and_over_tcp(lab: RunningLab) -> None:
    """Loading torch in an emulated machine takes most of it: few sizes, and not for long."""
    step = "{{test: {}, sizes: [1K, 256K], seconds: 1, engine: {}}}"
    operations = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
    steps = [step.format(name, "mpi") for name in operations] + [step.format("all_reduce", "gloo")]
    (lab.folder / "suite.yaml").write_text(f"steps: [{', '.join(steps)}]")
    before = packets(lab, "node1")
    result = lab.railbed("bench", "suite.yaml", "--json", "--timeout", "120")
    found = [one for one in result.records if one.get("name") == "bus_bandwidth"]
    told = {(one["labels"]["test"], one["labels"]["over"]) for one in found if one["labels"]["size"] == 256 << 10}
    assert told == {*((name, "mpi over RDMA (rxe0:1)") for name in operations), ("all_reduce", "gloo over TCP (rail0)")}
    assert all(one["value"] > 0 for one in found)
    assert packets(lab, "node1") > before + 100
    proven = [one["verdict"] for one in result.findings if one["check"] == "bench_one_job"]
    assert proven == ["ok", "ok"]


def test_a_machine_that_is_killed_under_mpi(lab: RunningLab, over_tcp: dict[int, float]) -> None:
    """Last of all: the machine stays off."""
    done = train(lab, "mpi", kill="node2")
    assert done.code == 1, done.err
    (ending,) = done.events("ending")
    assert ending["message"].startswith("trained to the end, but node2 was lost at step ")
    assert [one["data"]["nodes"] for one in done.events("generation")] == [["node1", "node2"], ["node1"]]
    assert done.losses == pytest.approx(over_tcp, rel=2e-4)
