"""Capture on namespaces, which have no RDMA: UDP datagrams to port 4791 stand in for RoCEv2."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railbed import clusterfile
from railbed.capture import remote
from railbed.capture.recording import RecordingLimits
from railbed.capture.run import CaptureRequest, capture
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.record import Finding, Record
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from tests.support import cli
from tests.support.background import Background
from tests.support.labs import RunningLab
from tests.support.ranks import wait_for
from tests.test_cli import assert_one_sentence

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]
NODES = ["node1", "node2", "node3"]
SEND = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 106)
    for _ in range({packets}):
        sender.sendto(bytes(1000), ("{peer}", 4791))
        sender.sendto(bytes(1000), ("{peer}", 4790))
"""


@pytest.fixture(scope="module")
def lab(netns_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    folder = tmp_path_factory.mktemp("capture")
    return netns_lab.seen_from(folder, nodes=len(NODES), rails=("rail0", "rail1"))


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, with every node up and nothing of a capture left after the test."""
    yield lab
    lab.heal()
    wait_for(lambda: traces(lab) == [])


def traces(lab: RunningLab) -> list[str]:
    """Return the processes of captures on the nodes."""
    processes = [lab.run_inside(node, "pgrep -af '[t]cpdump|[t]ext.extend' || true").out for node in NODES]
    return [line for text in processes for line in text.splitlines()]


def folders(lab: RunningLab) -> list[Path]:
    """Return the folders that tcpdump writes to: nodes share them with this machine, and with other labs."""
    return [Path(line.split(" -w ")[1].split()[0]).parent for line in traces(lab) if " -w " in line]


def send(lab: RunningLab, packets: int) -> None:
    script = SEND.format(packets=packets, peer="node2-rail0")
    assert lab.run_inside("node1", f"python3 -c '{script}'").code == 0


def begin(lab: RunningLab, *options: str) -> tuple[Background, dict[str, Any]]:
    """Start a capture; return it when it records, with the event that says so."""
    process = cli.start(lab.folder, "capture", "--cluster", lab.cluster, "--json", *options)
    assert process.stdout is not None
    for line in process.stdout:
        record = json.loads(line)
        if record.get("name") == "capture_started":
            return process, record
    raise AssertionError(process.communicate())


def rest(process: Background) -> list[dict[str, Any]]:
    out, _ = process.communicate(timeout=300)
    return [json.loads(line) for line in out.splitlines()]


def test_ctrl_c_stops_and_what_was_recorded_is_there(healed: RunningLab) -> None:
    process, started = begin(healed, "--for", "600", "--rail", "rail0")
    assert started["data"]["ports"] == [f"{node}/rail0" for node in NODES]
    send(healed, 300)
    written = folders(healed)
    assert len(written) == len(NODES)
    assert healed.run_inside("node3", "pkill -9 tcpdump").code == 0
    process.send_signal(signal.SIGINT)
    records = rest(process)
    assert process.returncode in (0, 1), "it was judged"
    ports = {record["subject"]: record["data"] for record in records if record.get("name") == "port_captured"}
    assert {name: port.get("captured") for name, port in ports.items()} == {
        "node1/rail0": 300,
        "node2/rail0": 300,
        "node3/rail0": None,
    }
    assert ports["node1/rail0"]["dropped"] == 0
    (run,) = (healed.folder / "runs").glob("*-capture")
    assert (run / ports["node2/rail0"]["file"]).stat().st_size == ports["node2/rail0"]["bytes"]
    read = {record["subject"]: record["data"] for record in records if record.get("name") == "recording_read"}
    assert read["node2/rail0"]["total"] == 300
    findings = [record for record in records if record["kind"] == "finding"]
    assert {finding["check"] for finding in findings} > {"captured", "recorder_empty"}
    (finding,) = [finding for finding in findings if finding["check"] == "captured"]
    assert (finding["subject"], finding["verdict"]) == ("node3/rail0", "warn")
    assert "tcpdump was killed by signal 9" in finding["observed"]
    assert traces(healed) == []
    assert [folder for folder in written if folder.exists()] == [], "nothing is left when it ends"


def test_nothing_is_left_when_railbed_is_killed(healed: RunningLab) -> None:
    process, _ = begin(healed, "--for", "600")
    written = folders(healed)
    assert len(written) == 2 * len(NODES)
    process.kill()
    process.communicate()
    wait_for(lambda: traces(healed) == [] and not any(folder.exists() for folder in written))


async def test_a_node_that_falls_silent_is_a_finding_and_the_others_are_recorded(
    healed: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SILENCE_SECONDS", 3.0)
    cluster = clusterfile.load(healed.cluster)
    records: list[Record] = []
    stop = asyncio.Event()
    request = CaptureRequest(nodes=["node1", "node3"], rails=["rail0"], limits=RecordingLimits(seconds=300.0))
    async with live_connector() as connect, Fleet(targets_of(cluster), connect) as fleet:
        async for record in capture(cluster, fleet, request, tmp_path, stop):
            records.append(record)
            if isinstance(record, events.CaptureStarted):
                assert (await asyncio.to_thread(healed.fault, "freeze", "node3")).code == 0
                await asyncio.to_thread(send, healed, 20)
                stop.set()
    captured = {record.subject: record.captured for record in records if isinstance(record, events.PortCaptured)}
    assert captured == {"node1/rail0": 20}
    findings = {it.subject: it for it in records if isinstance(it, Finding) and it.check == "captured"}
    assert findings["node3/rail0"].verdict == "unknown"
    assert "has not answered for 3 s" in findings["node3/rail0"].observed


def test_a_recording_is_read_again_without_a_cluster(healed: RunningLab) -> None:
    """What a capture fetched is an ordinary file."""
    files = sorted((healed.folder / "runs").glob("*-capture/raw/node2/rail0.pcap"))
    folder = healed.folder / "elsewhere"
    folder.mkdir()
    result = cli.railbed(folder, "capture", "--json", "--from", files[0])
    (read,) = [record for record in result.records if record.get("name") == "recording_read"]
    assert (read["subject"], read["data"]["total"]) == ("rail0.pcap", 300)
    assert result.findings
    named = cli.railbed(folder, "capture", "--json", "--from", files[0], "-c", healed.cluster)
    assert [it["subject"] for it in named.records if it.get("name") == "recording_read"] == ["node2/rail0"]
    for words, message in (
        ((files[0],), "to read a recording: --from"),
        (("--from", files[0], "--for", "3"), "--for and --from cannot be combined"),
        (("--rail", "rail0"), "there is no port to record"),
        (("--from", healed.cluster), "is neither pcap nor pcapng"),
        (("--explain", "marking_mising"), "did you mean marking_missing?"),
    ):
        refused = cli.railbed(folder, "capture", *words)
        assert refused.code == 2
        assert message in " ".join(refused.err.split())
    assert "DSCP" in cli.railbed(folder, "capture", "--explain", "marking_missing").out


def test_a_stream_of_rdma_is_refused_at_once_without_rdma(healed: RunningLab) -> None:
    before = set(healed.folder.glob("runs/*"))
    refused = healed.railbed("capture", "--json", "--with", "bench", "--nodes", "node1,node2", "--rail", "rail0")
    lacking = "the cluster file names no RDMA device (`rdma:`) of the ports to record"
    assert_one_sentence(refused, 2, f"--with bench cannot send RDMA: {lacking}")
    assert set(healed.folder.glob("runs/*")) == before


def test_names_and_nodes_that_are_not_there_are_refused(healed: RunningLab) -> None:
    for options, message in (
        (("--nodes", "node9"), "the cluster has no node 'node9'"),
        (("--rail", "rail9"), "the cluster has no rail 'rail9'"),
        (("--with", "iperf"), "there is no stream 'iperf'"),
    ):
        refused = healed.railbed("capture", *options)
        assert refused.code == 2
        assert message in refused.err
