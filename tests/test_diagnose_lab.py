"""Faults of a netns lab as `diagnose` explains them: one training on four nodes, clean at first, then with faults."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from railbed import clusterfile
from tests.support.labs import RunningLab, call
from tests.support.ranks import wait_for
from tests.support.training import WAIT_SECONDS, Training, trained, training, training_site

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("nettrain")]
USUAL = ("slow", "rail0", "8M")
"""Makes steps long without keeping the processor busy."""
LASTS, LASTS_LONGER, APART = 6.0, 9.0, 10.0
"""Seconds of a fault, and until the next one: closer together, one would explain the other. A slow network is judged
by pieces of two seconds, of which it takes three."""
FLAPS = "for number in 1 2 3; do ip link set rail0 down; sleep 0.3; ip link set rail0 up; sleep 2; done"
SETTLED = 10.0
"""Seconds of undisturbed steps at the start, which are nothing unusual; the pauses between faults are as usual."""
EARLY, LATE = 2.5, 4.0
"""Samples come every second, and a fault takes a moment to be set and to have an effect."""


class Inflicted(NamedTuple):
    """A fault, the verdict that it must lead to, and when it was set: at least and at most."""

    verdict: tuple[str, str]
    begun: tuple[float, float]


@pytest.fixture(scope="module")
def site(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return training_site(netns_lab, tmp_path_factory.mktemp("diagnose"), python=warm_python)


@pytest.fixture
def lab(site: RunningLab) -> Iterator[RunningLab]:
    """The lab with a slow rail; without faults and with every node up after the test."""
    assert site.fault(*USUAL).code == 0
    yield site
    site.heal()


@pytest.fixture
def pair(netns_lab: RunningLab, warm_python: Path, tmp_path: Path) -> Iterator[RunningLab]:
    """Two nodes with a slow rail, which both send to each other; without a filter after the test."""
    site = training_site(netns_lab, tmp_path, nodes=2, python=warm_python)
    assert site.fault(*USUAL).code == 0
    yield site
    assert site.run_inside("node1", "nft delete table inet loss || true").code == 0
    site.heal()


def test_a_clean_run_is_nothing_unusual_and_each_fault_is_explained_at_its_second(lab: RunningLab) -> None:
    options = ("small.yaml", "-c", "cluster.yaml", "--min-nodes", "2", "--set", "steps=100000", "--set", "shares=equal")
    with training(lab, *options) as run:
        run.until(lambda _: run.steps >= 5)
        wait(run, SETTLED)
        assert_nothing_unusual(lab)
        inflicted = [
            flap(lab, run, "node1"),
            disturb(lab, run, ("link_lossy", "rail0"), LASTS, "lose", "rail0", "8"),
            disturb(lab, run, ("link_slow", "node3/rail0"), LASTS_LONGER, "slow", "node3", "2M"),
            disturb(lab, run, ("link_rail_slow", "rail0"), LASTS_LONGER, "slow", "rail0", "2M"),
            send(lab, run, ("link_shared", "node1/rail0"), "node1", "node2", "--parallel", "4"),
            send(lab, run, ("link_shared", "node3/rail0"), "node3", "node4", "--udp", "--bitrate", "6M"),
            end_node(lab, run, ("node_frozen", "node4"), "freeze", "node4"),
            end_node(lab, run, ("node_cut", "node2"), "cut", "node2"),
        ]
        lab.heal()
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130
    findings = call(lab.folder, "diagnose", "--json").findings
    log(findings, inflicted)
    failed = [finding for finding in findings if finding["verdict"] == "fail"]
    begun = {(finding["check"], finding["subject"]): finding["since"] for finding in failed}
    # On a machine that is much too busy, ranks miss their heartbeats as well, which is then a verdict of its own.
    assert {key for key in begun if key[0] != "training_restart"} == {fault.verdict for fault in inflicted}
    flapping = next(finding["observed"] for finding in failed if finding["check"] == "link_flap")
    assert flapping.startswith("the link went down 3 times within ")
    for fault in inflicted:
        assert fault.begun[0] - EARLY <= begun[fault.verdict] <= fault.begun[1] + LATE, fault.verdict
    tcp, udp = (finding for finding in failed if finding["check"] == "link_shared")
    assert "to node2; the training sent " in tcp["observed"]
    assert "iperf3 (process " in tcp["evidence"]
    assert ", apparently to node4, without TCP connections (UDP or RDMA); " in udp["observed"]


def test_loss_in_one_direction_is_named_with_both_its_ends(pair: RunningLab) -> None:
    options = ("small.yaml", "-c", "cluster.yaml", "--set", "steps=100000", "--set", "shares=equal")
    with training(pair, *options) as run:
        run.until(lambda _: run.steps >= 5)
        wait(run, SETTLED)
        assert_nothing_unusual(pair)
        filter_from(pair, "node2", "node1", "numgen random mod 100 < 8 drop")
        wait(run, LASTS_LONGER)
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130
    findings = call(pair.folder, "diagnose", "--json").findings
    log(findings, [])
    (lossy,) = (finding for finding in findings if finding["check"] == "link_lossy")
    assert (lossy["verdict"], lossy["subject"]) == ("fail", "node2")
    assert "loss node2 → node1: " in lossy["observed"]
    assert "node1 → node2" not in lossy["observed"]


def filter_from(lab: RunningLab, sender: str, receiver: str, rule: str) -> None:
    """Filter TCP from a node, where it arrives."""
    address = clusterfile.load(lab.cluster).nodes[sender].ports[0].address
    chain = "add chain inet loss input { type filter hook input priority 0; }"
    rules = f"add table inet loss; {chain}; add rule inet loss input ip saddr {address} meta l4proto tcp {rule}"
    assert lab.run_inside(receiver, f"nft '{rules}'").code == 0


@pytest.mark.soak
def test_ten_clean_runs_raise_no_alarm(lab: RunningLab) -> None:
    for _ in range(10):
        trained(lab, "small.yaml", "-c", "cluster.yaml", "--set", "steps=100")
        assert_nothing_unusual(lab)


def assert_nothing_unusual(lab: RunningLab) -> None:
    """Judge the newest run, whether it is done or in progress."""
    result = call(lab.folder, "diagnose", "--json")
    assert (result.code, [line for line in result.problems if not line.startswith("skipped")]) == (0, [])
    judged = {finding["check"] for finding in result.findings if finding["verdict"] == "ok"}
    assert judged >= {"link_slow", "link_lossy", "link_flap", "link_rail_slow", "node_cut", "node_frozen"}
    assert "Nothing unusual: " in call(lab.folder, "diagnose").out


def disturb(lab: RunningLab, run: Training, verdict: tuple[str, str], seconds: float, *fault: str) -> Inflicted:
    """Make the network worse for a while."""
    begun = inflict(lab, *fault)
    wait(run, seconds)
    assert lab.fault("heal", fault[1]).code == 0
    if fault[1] == "rail0":
        assert lab.fault(*USUAL).code == 0
    wait(run, APART)
    return Inflicted(verdict, begun)


def flap(lab: RunningLab, run: Training, node: str) -> Inflicted:
    """Let the link of a node flap three times by hand; each time it is down for less than the time between samples."""
    before = time.time()
    result = lab.run_inside(node, FLAPS)
    assert result.code == 0, result
    begun = before, time.time()
    wait(run, APART)
    return Inflicted(("link_flap", f"{node}/rail0"), begun)


def end_node(lab: RunningLab, run: Training, verdict: tuple[str, str], *fault: str) -> Inflicted:
    """Take a node away; the others go on without it."""
    generation = run.generation
    begun = inflict(lab, *fault)
    run.until(lambda _: run.generation > generation and run.steps > 0)
    return Inflicted(verdict, begun)


def send(lab: RunningLab, run: Training, verdict: tuple[str, str], sender: str, receiver: str, *how: str) -> Inflicted:
    """Let a program that is not the training's send for a while over the rail."""
    address = clusterfile.load(lab.cluster).nodes[receiver].ports[0].address
    with lab.start_inside(receiver, f"exec iperf3 --server --one-off --bind {address}") as server:
        client = f"iperf3 --client {address} --time {LASTS_LONGER:.0f} {' '.join(how)}"
        wait_for(lambda: bool(lab.run_inside(receiver, f"ss -Hltn src {address}:5201").out))
        begun = time.time()
        with lab.start_inside(sender, f"exec {client}") as process:
            started = time.time()
            wait(run, LASTS_LONGER)
            output, _ = process.communicate(timeout=WAIT_SECONDS)
            assert process.returncode == 0, output
        server.communicate(timeout=WAIT_SECONDS)
    wait(run, APART)
    return Inflicted(verdict, (begun, started))


def inflict(lab: RunningLab, *fault: str) -> tuple[float, float]:
    """Set a fault, and return the times before and after."""
    before = time.time()
    assert lab.fault(*fault).code == 0
    return before, time.time()


def wait(run: Training, seconds: float) -> None:
    """Read on until a record is this much later than now."""
    then = time.time() + seconds
    run.until(lambda record: record["time"] >= then)


def log(findings: list[dict[str, Any]], inflicted: list[Inflicted]) -> None:
    """Print what pytest shows if the test fails."""
    start = inflicted[0].begun[0] if inflicted else findings[0]["since"] or 0.0
    for fault in inflicted:
        times = " ".join(f"{moment - start:.1f}" for moment in fault.begun)
        sys.stderr.write(f"inflicted {fault.verdict}: {times}\n")
    for finding in findings:
        span = [finding[key] and round(finding[key] - start, 1) for key in ("since", "until")]
        sys.stderr.write(
            f"{finding['verdict']} {finding['check']} {finding['subject']} {span}: {finding['observed']}\n"
        )
