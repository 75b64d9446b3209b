"""Sampling of machines with Soft-RoCE, clocks of their own and an emulated switch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from railbed import clusterfile
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.meters import SeriesKey
from tests.support.labs import RunningLab
from tests.support.watching import sampling

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
HOUR = 3600
SEND = """
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 106)
end = time.monotonic() + 2
while time.monotonic() < end:
    sender.sendto(bytes(4000), ("node1-rail0", 4792))
"""
"""Packets that may be marked, faster than the rail lets them pass; ping waits for its answers and is not."""


@pytest.fixture
def healed(vm_lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults after the test."""
    yield vm_lab
    vm_lab.heal()


@pytest.fixture
def cluster(healed: RunningLab) -> Cluster:
    return clusterfile.load(healed.cluster)


@pytest.mark.soak  # test_sampling.py has marks on namespaces
async def test_marks_are_counted_and_a_clock_that_is_set_is_noticed(healed: RunningLab, cluster: Cluster) -> None:
    assert healed.fault("mark", "rail0", "2M").code == 0  # slower than any machine emulates
    async with sampling(cluster, interval=0.5, switch_interval=1.0) as sampled:
        for device in (*cluster.nodes, *cluster.switches):
            started = await sampled.event(events.Sampling, device)
            assert (started.clock_error is None) == (device in cluster.switches)
        assert {"rdma_tx_packets", "rdma_out_of_sequence", "net_tx_bytes", "qdisc_drops"} <= sampled.meters("node1")

        assert (await asyncio.to_thread(healed.shell, "node2", f"python3 -c '{SEND}'")).code == 0
        series = SeriesKey("node1", "ip_ce_packets")
        await sampled.until(lambda: sampled.values(series)[-1] > sampled.values(series)[0])

        set_clock = "; sleep 3; ".join(f"date -s @$(($(date +%s) + {seconds}))" for seconds in (HOUR, -HOUR))
        assert (await asyncio.to_thread(healed.shell, "node1", set_clock)).code == 0
        for seconds in (HOUR, -HOUR):
            jump = await sampled.event(events.ClockJumped, "node1")
            assert jump.seconds == pytest.approx(seconds, abs=60)
        times = [taken.time for taken in sampled.samples if taken.device == "node1"]
        assert times[-1] - times[0] < HOUR / 2
