"""Capture of real RoCEv2 between virtual machines: marks, losses and training, compared with what devices count.

Linux hands packets to a recorder after its own queue: a mark that the sender's queue makes, and a packet that it drops,
show in the sender's recording as they do in the receiver's.
"""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from railbed import clusterfile
from railbed.lab.folder import load_lab
from railbed.lab.model import Fault
from railbed.lab.vm.faults import queues
from tests.support import cli
from tests.support.labs import RunningLab
from tests.support.smallrun import write_text

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
PATIENTLY = ("--timeout", "300")
STREAM = "ib_write_bw -d rxe{rail} -x 1 -F -u 20 -p 1851{rail} -n 12 -s 65536 --tclass={tclass}"
PACKETS = 12 * 65536 // 4096
MOST_STREAMS = 6
LISTENS = "ss -Hltn | grep -q ':1851{rail} '"
FAULTS = (Fault("mark", "rail0", 4e6), Fault("lose", "rail1", 2))


@pytest.fixture(scope="module")
def lab(vm_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return vm_lab.seen_from(tmp_path_factory.mktemp("capture"), rails=("rail0", "rail1"))


@pytest.fixture
def faulty(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab with the queues of the faults during the test, without the logins that `lab fault` takes."""
    declared = replace(load_lab(lab.name), faults=FAULTS)
    for node in declared.nodes:
        added = " && ".join(line for rail in declared.rails for line in queues(declared, node, rail))
        assert lab.run_inside(node.name, added).code == 0
    yield lab
    for node in declared.nodes:
        removed = " && ".join(f"tc qdisc del dev {rail} root" for rail in declared.rails)
        assert lab.run_inside(node.name, removed).code == 0


class Captured:
    """A capture, in progress and then as its records."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def events(self, name: str) -> dict[str, dict[str, Any]]:
        return {record["subject"]: record["data"] for record in self.records if record.get("name") == name}

    def flows(self, path: str) -> list[dict[str, Any]]:
        return [it["data"] for it in self.records if it.get("name") == "flow" and it["subject"] == path]

    def findings(self, check: str) -> dict[str, dict[str, Any]]:
        return {record["subject"]: record for record in self.records if record.get("check") == check}


@contextmanager
def capturing(lab: RunningLab, *options: str) -> Iterator[Captured]:
    """Capture while the block runs, and judge after it."""
    captured, started = Captured(), threading.Event()

    def receive() -> None:
        """Take its records as they come: a capture that cannot print does not record either."""
        assert process.stdout is not None
        for line in process.stdout:
            captured.records.append(json.loads(line))
            if captured.records[-1].get("name") == "capture_started":
                started.set()
        started.set()

    with cli.start(
        lab.folder, "capture", "--cluster", lab.cluster, "--json", "--for", "1800", *PATIENTLY, *options
    ) as process:
        receiving = threading.Thread(target=receive)
        receiving.start()
        try:
            started.wait()
            assert captured.events("capture_started"), captured.records[-3:]
            yield captured
            process.send_signal(signal.SIGINT)
            receiving.join(timeout=600)
            assert process.wait(60) in (0, 1)
        finally:
            process.kill()
            receiving.join()


def send(lab: RunningLab, rail: int, tclass: int) -> None:
    """Send a stream of 64 KiB writes from node2 to node1."""
    command = STREAM.format(rail=rail, tclass=tclass)
    address = clusterfile.load(lab.cluster).nodes["node1"].ports[rail].address
    # Connecting queue pairs fails if the neighbour is not known within a second, as when the first packet is lost.
    known = f"timeout 60 sh -c 'until ping -c 1 -W 2 {address}; do sleep 0.2; done' >/dev/null"
    with lab.in_background("node1", command, LISTENS.format(rail=rail)) as server:
        sent = lab.run_inside("node2", f"{known} && timeout 300 {command} node1")
        server.communicate()
    assert sent.code == 0, sent


def count(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    assert match, text
    return int(match[1])


def counters(lab: RunningLab, node: str, rail: int) -> dict[str, int]:
    words = lab.run_inside(node, f"rdma statistic show link rxe{rail}/1").out.split()[2:]
    return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def grown(before: dict[str, int], after: dict[str, int], name: str) -> int:
    return after[name] - before[name]


def test_marks_and_losses_are_those_that_the_devices_count(faulty: RunningLab) -> None:
    """A marked stream through a queue that marks, and an unmarked one on a rail that loses packets."""
    before = counters(faulty, "node1", 1)
    with capturing(faulty) as captured:
        send(faulty, 0, tclass=106)
        for _ in range(MOST_STREAMS):  # of 192 packets, one time in fifty none is lost
            send(faulty, 1, tclass=0)
            after = counters(faulty, "node1", 1)
            if refused := grown(before, after, "out_of_seq_request"):
                break
    marked = count(r"marked (\d+)", faulty.run_inside("node2", "tc -s qdisc show dev rail0").out)
    lost, hidden = (
        count(r"dropped (\d+)", faulty.run_inside(node, "tc -s qdisc show dev rail1").out)
        for node in ("node2", "node1")
    )

    methods = captured.events("capture_method")
    assert {name: method["method"] for name, method in methods.items()} == dict.fromkeys(
        ("node1/rail0", "node1/rail1", "node2/rail0", "node2/rail1"), "kernel"
    )
    assert {port["dropped"] for port in captured.events("port_captured").values()} == {0}

    (flow,) = captured.flows("node2/rail0 → node1/rail0")
    assert flow["dscp"] == {"26": flow["packets"]}
    assert flow["packets"] == flow["arrived"] >= PACKETS
    assert flow["ecn_arrived"]["ce"] == marked > 0
    assert flow["ecn_arrived"]["ce"] + flow["ecn_arrived"]["ect0"] == flow["arrived"], "all left as ECT"

    flows = captured.flows("node2/rail1 → node1/rail1")
    assert all(flow["dscp"] == {"0": flow["packets"]} for flow in flows)
    assert lost >= refused > 0
    # Refusals that the queue of node1 dropped, which loses packets as well, are in no recording.
    assert refused - hidden <= sum(flow["refusals"].get("sequence", 0) for flow in flows) <= refused
    assert sum(flow["resent"] for flow in flows) > 0
    assert sum(flow["packets"] for flow in flows) == grown(before, after, "rcvd_pkts")

    assert "node2/rail1" in captured.findings("marking_missing")
    assert "node2/rail0" not in captured.findings("marking_missing")
    checks = ("delivery_at_sender", "delivery_repeated", "delivery_lost")
    wrong = {
        subject.split(" → ")[0]
        for check in checks
        for subject, finding in captured.findings(check).items()
        if finding["verdict"] in ("fail", "warn")
    }
    assert wrong == {"node2/rail1"}


RECIPE = """
extends: tiny
steps: 4
model: {layers: 1, heads: 2, width: 256, context: 16, vocabulary: 512}
batch: {sequences: 2}
threads: 1
checkpoint: {steps: 100}
evaluation: {every: 0}
data: {files: [text.txt], validation: 0.1, prompt: "", sample: 0}
"""
"""Few tokens and many parameters: 3.7 MB of gradients a step."""


@pytest.mark.soak  # a minute of training on emulated machines
def test_a_training_over_mpi_has_the_bytes_that_the_devices_count(lab: RunningLab) -> None:
    write_text(lab.folder)
    (lab.folder / "small.yaml").write_text(RECIPE)
    quickly = ("--no-check", "--sample", "0", "--transport", "mpi", "--json", *PATIENTLY)
    nodes = ("node1", "node2")
    with capturing(lab, "--rail", "rail0") as captured:
        before = {node: (counters(lab, node, 0), sent_bytes(lab, node)) for node in nodes}
        trained = lab.railbed("train", "small.yaml", *quickly)
        after = {node: (counters(lab, node, 0), sent_bytes(lab, node)) for node in nodes}
    assert trained.code == 0, trained.err
    gradients = sum(record["value"] for record in trained.records if record.get("name") == "bytes_sent") / 2
    assert {port["dropped"] for port in captured.events("port_captured").values()} == {0}
    for node, other in (("node1", "node2"), ("node2", "node1")):
        flows = captured.flows(f"{node}/rail0 → {other}/rail0")
        packets = sum(flow["packets"] for flow in flows)
        assert packets == pytest.approx(grown(before[node][0], after[node][0], "sent_pkts"), rel=0.01)
        payload = sum(flow["payload_bytes"] for flow in flows)
        assert gradients < payload
        # The interface also counts TCP: the ranks' rendezvous.
        assert sum(flow["bytes"] for flow in flows) == pytest.approx(after[node][1] - before[node][1], rel=0.01)


def sent_bytes(lab: RunningLab, node: str) -> int:
    return int(lab.run_inside(node, "cat /sys/class/net/rail0/statistics/tx_bytes").out)
