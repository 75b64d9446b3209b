"""Signatures of a switch, end to end: the emulated Nexus counts, prints, is parsed, sampled and stored; rules judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from railbed import clusterfile
from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.fleet.sample.switches import PROBES, series_of
from railbed.model.meters import Sample, SeriesKey
from railbed.model.reading import Known
from railbed.model.record import WRONG, Verdict
from railbed.probes.outputs import parse_output
from railbed.rules.engine import judge
from railbed.rules.site import Site
from railbed.store.series import SeriesWriter
from railbed.store.timeline import Timeline
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.model.traffic import Packets
from tests.support.nexus import PORTS, cluster, connected, printed
from tests.support.runs import STARTED, made_run
from tests.switchlab.nexus.support import LOSSLESS

pytestmark = pytest.mark.usefixtures("runs_here")
INTERVAL, TICKS = 5.0, 13
FAULT = range(6, 8)
"""Ticks in which something happens."""
Drive = Callable[[Switch], None]
FIRST, SECOND = PORTS


def burst(depth: int) -> Drive:
    """Return a burst from the first port to the second, whose queue is this full."""

    def carry(switch: Switch) -> None:
        switch.carry(FIRST, SECOND, Packets(dscp=26, bytes=4_000_000, packet_size=4000, depth=depth))

    return carry


def counts(port: str, counter: str, amount: int, group: int | None = None) -> Drive:
    return lambda switch: switch.add(port, counter, amount, group=group)


def sampled(switch: Switch, drive: Drive, hosts: Mapping[SeriesKey, int]) -> Site:
    """Sample the switch and its nodes into a run; the nodes' counters grow by a rate while something happens."""
    site = cluster()
    with made_run("watch", cluster_text=clusterfile.dumps(site), cluster="x") as (run, clock):
        clock.now += TICKS * INTERVAL
        run.finish("done", 0)
    totals = dict.fromkeys(hosts, 1000)
    with SeriesWriter(run.folder) as writer:
        for tick in range(TICKS):
            if tick in FAULT:
                drive(switch)
            if tick == 0 or tick in FAULT:
                values = dict(series_of("s1", facts_of(switch), PORTS))
            time = STARTED + tick * INTERVAL
            writer.append(Sample("s1", time, tuple(values), tuple(values.values())))
            for series, rate in hosts.items():
                totals[series] += int(rate * INTERVAL) if tick in FAULT else 0
            for node in ("a", "b"):
                layout = tuple(series for series in hosts if series.device == node)
                writer.append(Sample(node, time, layout, tuple(totals[series] for series in layout)))
    return Site(site, timeline=Timeline(run.folder))


def facts_of(switch: Switch) -> dict[str, object]:
    readings = {name: parse_output(probe, printed(switch, str(probe.command))) for name, probe in PROBES.items()}
    return {name: reading.facts for name, reading in readings.items() if isinstance(reading, Known)}


def pauses(rate: int, direction: str = "rx", node: str = "a") -> Mapping[SeriesKey, int]:
    """Return the pauses that the card of a node counts; the other counts none."""
    name = f"pause_{direction}_frames"
    return {SeriesKey(each, name, "eth1", "3"): rate if each == node else 0 for each in "ab"}


@pytest.mark.parametrize(
    ("drive", "hosts", "verdict"),
    [
        (burst(900_000), pauses(0), ("pause_host_off", "a/eth1", "fail")),
        (burst(100_000), pauses(500), ("congestion_ecn_late", "s1", "warn")),
        (counts(FIRST, "giants", 15), pauses(0), ("path_mtu", "a/eth1", "fail")),
        (counts(SECOND, "drop_packets", 40, 3), pauses(500), ("loss_lossless_queue", f"s1/{SECOND}", "fail")),
        (counts(SECOND, "drop_packets", 40, 3), pauses(0), ("pause_off", "r", "fail")),
        (counts(SECOND, "watchdog.shutdown", 1, 3), pauses(0), ("pause_storm", "b/eth1", "fail")),
        (counts(FIRST, "fcs", 25), pauses(0), ("link_cable", "a/eth1", "fail")),
        (counts(FIRST, "stomped_crc", 25), pauses(0), ("link_stomped", f"s1/{FIRST}", "warn")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_signature_is_recognised(drive: Drive, hosts: Mapping[SeriesKey, int], verdict: tuple[str, str, str]) -> None:
    findings = list(judge(DIAGNOSE_BOOK, sampled(connected("n9k", LOSSLESS), drive, hosts)))
    wrong = [finding for finding in findings if finding.verdict in WRONG]
    assert [(finding.check, finding.subject, finding.verdict) for finding in wrong] == [verdict]
    assert wrong[0].since == STARTED + (FAULT.start - 1) * INTERVAL
    assert wrong[0].until == STARTED + (FAULT.stop - 1) * INTERVAL


@pytest.mark.parametrize(
    ("drive", "hosts"),
    [
        (burst(0), pauses(0)),
        (burst(900_000), pauses(100_000)),
        (counts(SECOND, "drop_packets", 40, 0), pauses(0)),
    ],
    ids=["traffic", "marked-and-paused", "drops-of-the-default-queue"],
)
def test_what_is_normal_is_not(drive: Drive, hosts: Mapping[SeriesKey, int]) -> None:
    findings = list(judge(DIAGNOSE_BOOK, sampled(connected("n9k", LOSSLESS), drive, hosts)))
    assert [finding for finding in findings if finding.verdict in WRONG] == []
    judged = {finding.check for finding in findings if finding.verdict is Verdict.OK}
    assert judged >= {"pause_host_off", "congestion_ecn_late", "path_mtu", "loss_lossless_queue", "pause_storm"}
    assert judged >= {"link_cable", "link_stomped"}


@pytest.mark.parametrize(("queue", "verdicts"), [(3, ["congestion_wred"]), (0, [])])
def test_wred_that_drops_on_the_lossless_queue(queue: int, verdicts: list[str]) -> None:
    """Only older switches count it, for all queues together."""

    def drive(switch: Switch) -> None:
        switch.add(SECOND, "wred_drops", 25)
        switch.add(SECOND, "drop_packets", 25, group=queue)

    findings = list(judge(DIAGNOSE_BOOK, sampled(connected("n9k-ale"), drive, pauses(0))))
    assert [finding.check for finding in findings if finding.verdict in WRONG] == verdicts
