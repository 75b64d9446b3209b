"""`railbed bench` between virtual machines: RDMA by perftest, TCP, disks; killed nodes and full disks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.benchsite import write_suite
from tests.support.cli import RAILBED, environment
from tests.support.labs import RunningLab, kept, running_lab

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
SECONDS = 240


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    folder = tmp_path_factory.mktemp("lab")
    with running_lab(folder, "--kind", "vm", "--nodes", "2") as lab:
        yield lab


def named(records: list[dict[str, Any]], test: str) -> set[str]:
    return {one["name"] for one in records if one["kind"] == "measurement" and one["labels"]["test"] == test}


def strays(lab: RunningLab, *nodes: str) -> str:
    look = "ps ax -o args | grep -E '^(ib_|iperf3|sockperf|fio)' || true"
    return "".join(lab.shell(node, look).out for node in nodes or ("node1", "node2"))


def test_rdma_tcp_and_disks_are_measured_over_ssh(lab: RunningLab) -> None:
    """Every tool, the policy's traffic class on the wire, the counters of the device moved, and a disk that is full."""
    assert lab.shell("node1", "mkdir -p /small && mount -t tmpfs -o size=8m tmpfs /small").code == 0
    assert lab.shell("node2", "mkdir -p /small").code == 0
    before = lab.shell("node2", "rdma statistic show link rxe0/1").out.split()
    write_suite(
        lab.folder,
        "test: ib_write_bw, seconds: 2, direction: one",
        "test: ib_read_lat, samples: 100, direction: one",
        "test: ib_send_lat, samples: 150, direction: one",
        "test: iperf3, seconds: 1, direction: one",
        "test: sockperf_udp, seconds: 1, direction: one",
        "test: fio_read, seconds: 1, file: 16M, path: /small",
    )
    result = lab.railbed("bench", "suite.yaml", "--json")
    records = result.records
    assert {"bandwidth", "message_rate", "cpu_seconds"} <= named(records, "ib_write_bw"), result
    assert "round_trip" in named(records, "ib_read_lat"), result
    assert "half_round_trip" in named(records, "ib_send_lat"), result
    assert "bandwidth" in named(records, "iperf3"), result
    assert "half_round_trip" in named(records, "sockperf_udp"), result
    stats = {one["labels"]["stat"] for one in records if one.get("name") == "half_round_trip"}
    assert {"min", "p50", "p99", "max"} <= stats
    labels = next(one["labels"] for one in records if one.get("name") == "bandwidth")
    assert (labels["traffic_class"], labels["rail"], labels["from"]) == (106, "rail0", "node1")
    assert labels["version"].startswith("perftest ")
    after = lab.shell("node2", "rdma statistic show link rxe0/1").out.split()
    moved = {name: int(new) - int(old) for name, old, new in zip(before[2::2], before[3::2], after[3::2], strict=True)}
    assert moved["rcvd_pkts"] > 100
    failed = {one["subject"]: one["observed"] for one in result.findings if one["verdict"] == "fail"}
    assert set(failed) == {"node1"}, failed
    assert "No space left" in failed["node1"]
    assert named(records, "fio_read") >= {"disk_bandwidth", "disk_operations"}
    assert lab.shell("node1", "ls -A /small").out == ""
    assert strays(lab) == ""


QUESTION = """
repeats: 3
a: {name: RDMA}
b: {name: TCP}
comparisons:
  - measure: bandwidth
    a: {test: ib_write_bw, pattern: pair, direction: one, seconds: 2}
    b: {test: iperf3, pattern: pair, direction: one, seconds: 1}
  - measure: half_round_trip
    a: {test: ib_send_lat, pattern: pair, direction: one, sizes: [14], samples: 50}
    b: {test: sockperf_tcp, pattern: pair, direction: one, sizes: [14], seconds: 1}
"""


def test_rdma_against_tcp_is_a_signed_difference_with_its_interval(lab: RunningLab) -> None:
    """Half a round trip with half of one; emulation decides who wins, so only the form of the answer is known."""
    (lab.folder / "question.yaml").write_text(QUESTION)
    result = lab.railbed("bench", "--experiment", "question.yaml", "--json")
    assert result.code == 0, result
    for measure in ("bandwidth", "half_round_trip"):
        told = [
            one for one in result.records if one.get("name") == "difference" and one["labels"]["measure"] == measure
        ]
        bounds = {one["labels"]["bound"]: one["value"] for one in told}
        assert bounds["low"] <= bounds["mean"] <= bounds["high"], result
        arms = {one["labels"]["arm"] for one in result.records if one.get("name") == measure}
        assert arms == {"RDMA", "TCP"}
    answers = [one["observed"] for one in result.findings if one["check"] == "bench_difference"]
    assert all("95 % confidence" in answer for answer in answers), answers
    assert strays(lab) == ""


def test_a_node_without_power_is_a_finding_and_the_rest_is_measured(lab: RunningLab) -> None:
    """Last of all: the machine stays off."""
    write_suite(lab.folder, "test: ib_write_bw, seconds: 20, direction: one", "test: fio_read, seconds: 1, file: 16M")
    with subprocess.Popen(
        [RAILBED, "bench", "suite.yaml", "--json", "-c", str(lab.cluster)],
        cwd=lab.folder,
        env=environment(**kept()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("name") == "trial":
                break
        assert lab.fault("kill", "node2").code == 0
        rest = [json.loads(line) for line in process.stdout]
        code = process.wait(SECONDS)
    unknown = {one["subject"] for one in rest if one["kind"] == "finding" and one["verdict"] == "unknown"}
    assert "node1/rail0 > node2" in unknown, rest
    assert {one["labels"]["node"] for one in rest if one.get("name") == "disk_bandwidth"} == {"node1"}
    assert code == 1
    assert strays(lab, "node1") == ""
