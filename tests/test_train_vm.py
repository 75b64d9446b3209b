"""Training between virtual machines: gradients over RoCEv2 with proof, over TCP without a device, and a lost node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.cli import RAILBED, environment
from tests.support.labs import RunningLab, cache_variables
from tests.support.smallrun import write_text
from tests.support.training import Records, events, losses, trained

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
NODES = ("node1", "node2")
STEPS = 2
SECONDS = 600
RECIPE = f"""
extends: tiny
steps: {STEPS}
model: {{layers: 1, heads: 2, width: 128, context: 8, vocabulary: 512}}
batch: {{sequences: 2}}
threads: 1
checkpoint: {{steps: 100}}
evaluation: {{every: 0}}
data: {{files: [text.txt], validation: 0.1, prompt: "", sample: 0}}
"""
"""Few tokens and many parameters: 1.1 MB of gradients a step, far more than the ranks' messages over SSH, and less
computing than an emulated processor does in a second."""


@pytest.fixture(scope="module")
def lab(vm_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    folder = tmp_path_factory.mktemp("train")
    write_text(folder)
    (folder / "small.yaml").write_text(RECIPE)
    return vm_lab.seen_from(folder)


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults and with every node up after the test."""
    yield lab
    lab.heal()


@dataclass(frozen=True)
class Trained:
    """A run that ended."""

    code: int
    err: str
    records: Records

    @property
    def losses(self) -> dict[int, float]:
        return losses(self.records)

    def events(self, name: str) -> Records:
        return events(self.records, name)

    @property
    def proof(self) -> dict[str, Any]:
        (finding,) = [record for record in self.records if record.get("check") == "gradients_over_rdma"]
        return finding


def train(lab: RunningLab, transport: str, *options: str, fault: str = "") -> Trained:
    """Train without checks and samples, which take as long as the training here; node2 has a fault after a step."""
    quickly = ("--no-check", "--sample", "0")
    patiently = ("--transport", transport, "--timeout", "300", "--json", "-c", str(lab.cluster))
    command = [RAILBED, "train", "small.yaml", *quickly, *patiently, *options]
    records = []
    with (
        (lab.folder / "err").open("w+") as err,
        subprocess.Popen(
            command,
            cwd=lab.folder,
            env=environment(**cache_variables(), RAILBED_RUNS=str(lab.folder / "runs")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            records.append(json.loads(line))
            if fault and records[-1].get("name") == "loss":
                assert lab.fault(fault, "node2").code == 0
                fault = ""
        process.wait(SECONDS)
        err.seek(0)
        return Trained(process.returncode, err.read(), records)


def packets(lab: RunningLab, node: str) -> int:
    """Return how many packets a node has sent over RDMA, by the kernel's counter."""
    return int(lab.run_inside(node, "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts").out)


@dataclass(frozen=True)
class OverRoce:
    """A run over mpi, and the packets that each node sent over RDMA meanwhile."""

    run: Trained
    packets: dict[str, int]


@pytest.fixture(scope="module")
def over_roce(lab: RunningLab) -> OverRoce:
    before = {node: packets(lab, node) for node in NODES}
    run = train(lab, "mpi")
    assert run.code == 0, run.err
    return OverRoce(run, {node: packets(lab, node) - before[node] for node in NODES})


def on_this_machine(lab: RunningLab, *options: str) -> dict[int, float]:
    """Return the losses of the same training on one rank of this machine."""
    return losses(trained(lab, "small.yaml", *options, "--ranks", "1", "--cluster", "local", "--no-check"))


@dataclass(frozen=True)
class WithoutDevice:
    """Runs while one node had no RDMA device."""

    mpi: Trained
    auto: Trained


@pytest.fixture(scope="module")
def without_device(lab: RunningLab) -> WithoutDevice:
    assert lab.run_inside("node2", "rdma link delete rxe0").code == 0
    runs = WithoutDevice(train(lab, "mpi"), train(lab, "auto"))
    assert lab.run_inside("node2", "rdma link add rxe0 type rxe netdev rail0").code == 0
    return runs


def test_gradients_cross_roce_and_the_loss_is_that_of_one_rank(lab: RunningLab, over_roce: OverRoce) -> None:
    run = over_roce.run
    assert run.losses == pytest.approx(on_this_machine(lab), rel=2e-4)
    (chosen,) = run.events("transport")
    assert chosen["subject"] == "mpi"
    assert chosen["message"].startswith("mpi over RDMA (rxe0:1): ")
    trials = [record for record in run.records if record.get("name") == "allreduce_trial_seconds"]
    assert trials
    assert all(trial["value"] > 0 and trial["labels"]["engine"] == "mpi" for trial in trials)
    gradients = sum(record["value"] for record in run.records if record.get("name") == "bytes_sent") / 2
    assert gradients > STEPS * 1_000_000
    for node, count in over_roce.packets.items():
        # The path MTU of Soft-RoCE on rails of 9000 bytes: no packet carries more.
        assert count * 4096 >= gradients, node
    assert run.proof["verdict"] == "ok", run.proof
    assert "of gradients crossed RoCE on both nodes" in run.proof["observed"]
    live = run.events("gradient_path")
    assert {event["data"]["verdict"] for event in live} == {"ok"}, [event["message"] for event in live]
    for node in live[-1]["data"]["nodes"]:
        # TCP between the ranks, counted by connection: the rendezvous, and nothing of the size of gradients.
        assert node["tcp_not_counted"] == ""
        assert node["rails"][0]["tcp_bytes"][1] < gradients / 20


@pytest.mark.soak  # test_train_lab.py has it on namespaces
def test_mpi_is_refused_where_the_device_is_gone(without_device: WithoutDevice) -> None:
    refused = without_device.mpi
    assert refused.code == 3
    assert "mpi was requested and does not work here: node" in refused.err
    assert "no RDMA device rxe0 port 1 on the node" in refused.err
    assert refused.losses == {}


@pytest.mark.soak  # test_train_lab.py has it on namespaces, test_collective_mpi.py the bits over shared memory
def test_auto_takes_tcp_where_the_device_is_gone_says_why_and_has_the_same_bits(
    without_device: WithoutDevice, over_roce: OverRoce
) -> None:
    run = without_device.auto
    assert run.code == 0, run.err
    (chosen,) = run.events("transport")
    assert (chosen["subject"], chosen["data"]["falls_back"]) == ("gloo", True)
    assert chosen["message"].startswith("gloo over TCP (rail0): ")
    assert "no RDMA device rxe0 port 1 on the node" in chosen["message"]
    assert "gradients went over TCP" in run.proof["observed"]
    assert "no RDMA device rxe0" in run.proof["observed"]
    assert run.losses == over_roce.run.losses


OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")


@pytest.mark.soak
def test_collectives_are_measured_over_rdma_and_over_tcp(lab: RunningLab) -> None:
    """Starting ranks on emulated machines takes most of the time: few sizes, measured briefly."""
    step = "{{test: {}, sizes: [1K, 256K], seconds: 1, engine: {}}}"
    steps = [step.format(name, "mpi") for name in OPERATIONS] + [step.format("all_reduce", "gloo")]
    (lab.folder / "suite.yaml").write_text(f"steps: [{', '.join(steps)}]")
    before = packets(lab, "node1")
    result = lab.railbed("bench", "suite.yaml", "--json", "--timeout", "300")
    measured = [record for record in result.records if record.get("name") == "bus_bandwidth"]
    labels = [record["labels"] for record in measured if record["labels"]["size"] == 256 << 10]
    assert {(label["test"], label["over"]) for label in labels} == {
        *((name, "mpi over RDMA (rxe0:1)") for name in OPERATIONS),
        ("all_reduce", "gloo over TCP (rail0)"),
    }
    assert all(record["value"] > 0 for record in measured)
    assert packets(lab, "node1") > before + 100
    proven = [finding["verdict"] for finding in result.findings if finding["check"] == "bench_one_job"]
    assert proven == ["ok", "ok"]


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["freeze", "kill"])
def test_training_over_mpi_survives_a_machine(healed: RunningLab, fault: str) -> None:
    """A machine that is frozen is as silent as one without power, and is back at once."""
    longer = ("--set", "steps=8", "--set", "checkpoint.steps=1")
    done = train(healed, "mpi", *longer, fault=fault)
    assert done.code == 1, done.err
    (ending,) = done.events("ending")
    assert ending["message"].startswith("trained to the end, but node2 was lost at step ")
    assert [event["data"]["nodes"] for event in done.events("generation")] == [["node1", "node2"], ["node1"]]
    assert done.losses == pytest.approx(on_this_machine(healed, *longer), rel=2e-4)
