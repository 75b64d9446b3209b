"""Sampling on a lab: readers that are killed, nodes that freeze or lose power, a control process that is killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from railbed import clusterfile
from railbed.fleet.sample.clock import ControlClock
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.meters import SeriesKey
from railbed.store.series import SeriesReader
from tests.support.cli import start
from tests.support.labs import RunningLab
from tests.support.ranks import wait_for
from tests.support.watching import sampling

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]
NODES = ["node1", "node2", "node3"]
READER = "pgrep -f '[t]ext.extend' || true"
LEFT = f"ls -A ~; {READER}"


@pytest.fixture(scope="module")
def lab(netns_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return netns_lab.seen_from(tmp_path_factory.mktemp("sampling"), nodes=len(NODES))


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults and with every node up after the test."""
    yield lab
    lab.heal()


@pytest.fixture
def cluster(healed: RunningLab) -> Cluster:
    return clusterfile.load(healed.cluster)


def readers(lab: RunningLab, node: str) -> list[int]:
    """Return the processes of readers on a node."""
    return [int(line) for line in lab.run_inside(node, READER).out.split()]


def next_event(records: Iterator[dict[str, Any]], name: str) -> dict[str, Any]:
    """Skip records up to the next event of a name."""
    return next(record for record in records if record["kind"] == "event" and record["name"] == name)


async def test_a_reader_that_is_killed_and_a_node_that_freezes_are_gaps(healed: RunningLab, cluster: Cluster) -> None:
    async with sampling(cluster, interval=0.2) as sampled, sampled.fleet.open("node1", "cat") as other:
        for node in NODES:
            started = await sampled.event(events.Sampling, node)
            assert started.series >= 20
            assert started.clock_error is not None
            assert abs(started.clock_offset or 0.0) <= started.clock_error, "nodes share the clock of this machine"
        assert {"net_tx_bytes", "qdisc_drops", "tcp_retransmits", "cpu_busy_us"} <= sampled.meters("node1")

        assert (await asyncio.to_thread(healed.fault, "freeze", "node2")).code == 0
        (reader,) = await asyncio.to_thread(readers, healed, "node1")
        await asyncio.to_thread(healed.run_inside, "node1", f"kill -9 {reader}")
        assert (await sampled.event(events.SamplingGap, "node1")).why == "its reader ended"
        assert (await sampled.event(events.SamplingResumed, "node1")).seconds > 0
        await other.write(b"still here\n")
        assert await other.read(1) == b"still here\n", "the connection of the node stays open"

        assert "not answered" in (await sampled.event(events.SamplingGap, "node2")).why
        count = len(sampled.values(SeriesKey("node1", "cpu_busy_us")))
        await sampled.until(lambda: len(sampled.values(SeriesKey("node1", "cpu_busy_us"))) > count + 2)
        assert (await asyncio.to_thread(healed.fault, "heal", "node2")).code == 0
        assert (await sampled.event(events.SamplingResumed, "node2")).seconds > 0
        times = [taken.time for taken in sampled.samples if taken.device == "node1"]
        assert times == sorted(times)
    wait_for(lambda: not any(readers(healed, node) for node in NODES))


async def test_a_clock_that_is_set_is_an_event_and_times_are_right_afterwards(cluster: Cluster) -> None:
    ahead = 0.0
    loop = asyncio.get_running_loop()
    clock = ControlClock(wall=lambda: 1000.0 + ahead + loop.time(), monotonic=loop.time)
    async with sampling(cluster, interval=0.2, clock=clock) as sampled:
        await sampled.event(events.Sampling, "node1")
        ahead = 3600.0
        assert (await sampled.event(events.ClockJumped, "control")).seconds == pytest.approx(3600.0, abs=0.1)
        count = len(sampled.samples)
        await sampled.until(lambda: len(sampled.samples) > count + len(NODES))
        latest = max(taken.time for taken in sampled.samples)
        assert latest - (1000.0 + loop.time()) == pytest.approx(3600.0, abs=60.0)


def test_a_node_that_loses_power_is_sampled_again_and_a_killed_watch_leaves_nothing(healed: RunningLab) -> None:
    before = {node: healed.run_inside(node, LEFT).out for node in NODES}
    with start(healed.folder, "watch", "--cluster", healed.cluster, "--interval", "0.2", "--json") as process:
        assert process.stdout is not None
        records = map(json.loads, process.stdout)
        sampled: set[str] = set()
        while sampled != set(NODES):
            sampled.add(next_event(records, "sampling")["subject"])
        assert healed.fault("kill", "node3").code == 0
        gap = next_event(records, "sampling_gap")
        assert gap["subject"] == "node3"
        assert healed.fault("heal", "node3").code == 0
        resumed = next_event(records, "sampling_resumed")
        assert (resumed["subject"], resumed["data"]["seconds"] > 0) == ("node3", True)
        process.kill()
    (run,) = (healed.folder / "runs").glob("*-watch")
    times = SeriesReader(run).samples(SeriesKey("node3", "cpu_busy_us")).times
    last = gap["data"]["last"]
    assert last in times
    assert not ((times > last) & (times - last < resumed["data"]["seconds"])).any()
    assert times[-1] - last >= resumed["data"]["seconds"]
    wait_for(lambda: {node: healed.run_inside(node, LEFT).out for node in NODES} == before)


async def test_marks_of_congestion_are_counted_where_they_arrive(healed: RunningLab, cluster: Cluster) -> None:
    """Packets that may be marked (ECT) arrive marked (CE) from a rail that carries more than it should."""
    assert healed.fault("mark", "rail0", "1M").code == 0
    async with sampling(cluster, interval=0.2) as sampled:
        await sampled.event(events.Sampling, "node2")
        # A hundred at once are more than the rail carries, however busy this machine is.
        ping = "ping -q -Q 2 -s 8000 -l 100 -c 200 -i 0.002 node2-rail0"
        assert (await asyncio.to_thread(healed.run_inside, "node1", ping)).code == 0
        series = SeriesKey("node2", "ip_ce_packets")
        await sampled.until(lambda: sampled.values(series)[-1] > sampled.values(series)[0])
