"""`railbed bench` between virtual machines: RDMA by perftest, TCP, disks; silent nodes and full disks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.benchsite import write_suite
from tests.support.cli import RAILBED, environment
from tests.support.labs import RunningLab, cache_variables

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
SECONDS = 600
PATIENTLY = ("--timeout", "300")
"""Options of verbs: a busy machine emulates others slowly."""


@pytest.fixture(scope="module")
def lab(vm_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return vm_lab.seen_from(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults and with every node up after the test."""
    yield lab
    lab.heal()


def measured(records: list[dict[str, Any]], test: str) -> set[str]:
    """Return the names of the measurements that a test made."""
    measurements = [record for record in records if record["kind"] == "measurement"]
    return {measurement["name"] for measurement in measurements if measurement["labels"]["test"] == test}


def strays(lab: RunningLab, *nodes: str) -> str:
    command = "ps ax -o args | grep -E '^(ib_|iperf3|sockperf|fio)' || true"
    return "".join(lab.run_inside(node, command).out for node in nodes or ("node1", "node2"))


def test_rdma_is_measured_over_ssh(lab: RunningLab) -> None:
    """A bandwidth, the policy's traffic class on the wire, and the counters of the device moved."""
    before = packets_received(lab)
    write_suite(lab.folder, "test: ib_write_bw, seconds: 1, direction: one")
    result = lab.railbed("bench", "suite.yaml", "--json", *PATIENTLY)
    records = result.records
    assert {"bandwidth", "message_rate", "cpu_seconds"} <= measured(records, "ib_write_bw"), result.problems
    labels = next(record["labels"] for record in records if record.get("name") == "bandwidth")
    assert (labels["traffic_class"], labels["rail"], labels["from"]) == (106, "rail0", "node1")
    assert labels["version"].startswith("perftest ")
    assert packets_received(lab) - before > 100
    assert [finding for finding in result.findings if finding["verdict"] == "fail"] == []
    assert strays(lab) == ""


def packets_received(lab: RunningLab) -> int:
    words = lab.run_inside("node2", "rdma statistic show link rxe0/1").out.split()
    return int(words[words.index("rcvd_pkts") + 1])


@pytest.mark.soak
def test_latencies_tcp_and_disks_are_measured_over_ssh(lab: RunningLab) -> None:
    """One of the disks is full."""
    assert lab.run_inside("node1", "mkdir -p /small && mount -t tmpfs -o size=8m tmpfs /small").code == 0
    assert lab.run_inside("node2", "mkdir -p /small").code == 0
    write_suite(
        lab.folder,
        "test: ib_send_lat, samples: 150, direction: one",
        "test: ib_read_lat, samples: 150, direction: one",
        "test: iperf3, seconds: 1, direction: one",
        "test: sockperf_udp, seconds: 1, direction: one",
        "test: fio_read, seconds: 1, file: 16M, path: /small",
    )
    result = lab.railbed("bench", "suite.yaml", "--json", *PATIENTLY)
    assert "half_round_trip" in measured(result.records, "ib_send_lat"), result
    latencies = [record["labels"] for record in result.records if record.get("name") == "half_round_trip"]
    statistics = {labels["stat"] for labels in latencies if labels["test"] == "ib_send_lat"}
    assert {"min", "p50", "p99", "max"} <= statistics
    assert "round_trip" in measured(result.records, "ib_read_lat"), result
    assert "bandwidth" in measured(result.records, "iperf3"), result
    assert "half_round_trip" in measured(result.records, "sockperf_udp"), result
    failed = {finding["subject"]: finding["observed"] for finding in result.findings if finding["verdict"] == "fail"}
    assert set(failed) == {"node1"}, failed
    assert "No space left" in failed["node1"]
    assert measured(result.records, "fio_read") >= {"disk_bandwidth", "disk_operations"}
    assert lab.run_inside("node1", "ls -A /small && umount /small").out == ""
    assert strays(lab) == ""


@pytest.mark.soak
def test_a_path_is_followed_hop_by_hop(lab: RunningLab) -> None:
    """Soft-RoCE does not count by priority: unknown. The emulated switch sees no traffic: its hop fails."""
    result = lab.railbed("check", "reachable", "--prove", "path", "--json", *PATIENTLY)
    assert result.code == 1, result.problems
    hops = {(finding["check"], finding["subject"]): finding for finding in result.findings}
    for subject in ("node1/rail0 > node2", "node2/rail0 > node1"):
        for check in ("path_mark", "path_delivery", "path_ecn"):
            assert hops[check, subject]["verdict"] == "unknown", result.problems
        assert hops["path_class", subject]["verdict"] == "fail", result.problems
    streams = [record for record in result.records if record.get("name") == "bandwidth"]
    assert sorted(stream["labels"].get("traffic_class", 0) for stream in streams) == [0, 0, 106, 106]
    assert strays(lab) == ""


EXPERIMENT = """
repeats: 3
a: {name: RDMA}
b: {name: TCP}
comparisons:
  - measure: half_round_trip
    a: {test: ib_send_lat, pattern: pair, direction: one, sizes: [14], samples: 50}
    b: {test: sockperf_tcp, pattern: pair, direction: one, sizes: [14], seconds: 1}
  - measure: bandwidth
    a: {test: ib_write_bw, pattern: pair, direction: one, seconds: 2}
    b: {test: iperf3, pattern: pair, direction: one, seconds: 1}
"""


@pytest.mark.soak
def test_rdma_against_tcp_is_a_signed_difference_with_its_interval(lab: RunningLab) -> None:
    """Half a round trip is compared with half a round trip; which is faster depends on emulation and is not tested."""
    (lab.folder / "experiment.yaml").write_text(EXPERIMENT)
    result = lab.railbed("bench", "--experiment", "experiment.yaml", "--json", *PATIENTLY)
    assert result.code == 0, result
    for measure in ("half_round_trip", "bandwidth"):
        differences = [record for record in result.records if record.get("name") == "difference"]
        bounds = {
            difference["labels"]["bound"]: difference["value"]
            for difference in differences
            if difference["labels"]["measure"] == measure
        }
        assert bounds["low"] <= bounds["mean"] <= bounds["high"], result
        arms = {record["labels"]["arm"] for record in result.records if record.get("name") == measure}
        assert arms == {"RDMA", "TCP"}
    answers = [finding["observed"] for finding in result.findings if finding["check"] == "bench_difference"]
    assert all("95 % confidence" in answer for answer in answers), answers
    assert strays(lab) == ""


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["freeze", "kill"])
def test_a_node_that_goes_silent_is_a_finding_and_the_rest_is_measured(healed: RunningLab, fault: str) -> None:
    """A machine that is frozen is as silent as one without power, and is back at once."""
    write_suite(
        healed.folder, "test: ib_write_bw, seconds: 20, direction: one", "test: fio_read, seconds: 1, file: 16M"
    )
    with subprocess.Popen(
        [RAILBED, "bench", "suite.yaml", "--json", "-c", str(healed.cluster), *PATIENTLY],
        cwd=healed.folder,
        env=environment(**cache_variables()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("name") == "trial":
                break
        assert healed.fault(fault, "node2").code == 0
        rest = [json.loads(line) for line in process.stdout]
        code = process.wait(SECONDS)
    unknown = {record["subject"] for record in rest if record["kind"] == "finding" and record["verdict"] == "unknown"}
    assert "node1/rail0 > node2" in unknown, rest
    assert {record["labels"]["node"] for record in rest if record.get("name") == "disk_bandwidth"} == {"node1"}
    assert code == 1
    assert strays(healed, "node1") == ""
