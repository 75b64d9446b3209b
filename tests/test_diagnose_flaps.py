"""Links that flap while a lab is watched, each time for less than the time between two samples."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.lab.folder import load_lab
from railbed.lab.netns.machine import switch_namespace, switch_port
from tests.support.background import Background
from tests.support.cli import environment
from tests.support.labs import RunningLab, cache_variables, call

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]
FLAPS = "for number in {times}; do ip link set {port} down; sleep 0.3; ip link set {port} up; sleep 2; done"
THREE, ONE = "1 2 3", "1"
NODES = {"node1", "node2", "node3", "node4"}
COUNT = "cat /sys/class/net/rail0/carrier_changes"


def test_three_flaps_within_ten_seconds_at_either_end_of_a_cable(netns_lab: RunningLab, tmp_path: Path) -> None:
    """The link of node1 flaps before the run only, that of node2 at the node, of node3 at the switch, of node4 once."""
    lab = netns_lab.seen_from(tmp_path)
    flap_at_node(lab, "node1")
    flapped = int(lab.run_inside("node1", COUNT).out)
    with traffic(lab), watching(lab) as watch:
        for _ in range(2):
            sampled(watch, NODES)
        at_switch = subprocess.Popen(flaps_at_switch(lab, "node3"))
        flap_at_node(lab, "node2")
        flap_at_node(lab, "node4", ONE)
        assert at_switch.wait(60) == 0
        for _ in range(2):
            sampled(watch, NODES)
    assert int(lab.run_inside("node1", COUNT).out) == flapped >= 6
    findings = call(lab.folder, "diagnose", "--json", RAILBED_RUNS=str(tmp_path / "runs")).findings
    failed = {finding["subject"]: finding for finding in findings if finding["verdict"] == "fail"}
    assert {finding["check"] for finding in failed.values()} == {"link_flap"}
    assert failed.keys() == {"node2/rail0", "node3/rail0", "node4/rail0"}
    for subject in ("node2/rail0", "node3/rail0"):
        assert failed[subject]["observed"].startswith("the link went down 3 times within ")
    assert failed["node4/rail0"]["observed"].startswith("the link was down for ")


def flap_at_node(lab: RunningLab, node: str, times: str = THREE) -> None:
    result = lab.run_inside(node, FLAPS.format(times=times, port="rail0"))
    assert result.code == 0, result


def flaps_at_switch(lab: RunningLab, name: str) -> list[str]:
    """Return the command that lets a link flap at the other end of its cable."""
    known = load_lab(lab.name)
    (node,) = [node for node in known.nodes if node.name == name]
    port = switch_port(node, 0)
    return ["ip", "netns", "exec", switch_namespace(known), "sh", "-c", FLAPS.format(times=THREE, port=port)]


@contextmanager
def watching(lab: RunningLab) -> Iterator[Background]:
    variables = environment(**cache_variables(), RAILBED_RUNS=str(lab.folder / "runs"))
    options = ["watch", "--json", "--cluster", str(lab.cluster)]
    with Background(options, cwd=lab.folder, env=variables, errors_shown=True) as process:
        try:
            yield process
        finally:
            process.kill()


def sampled(watch: Background, nodes: set[str]) -> None:
    """Read on until the traffic of every node has been measured again."""
    missing = set(nodes)
    assert watch.stdout is not None
    for line in watch.stdout:
        record = json.loads(line)
        if record["name"] == "net_rx_bytes_rate" and record["value"] > 1000:
            missing.discard(record["labels"]["device"])
        if not missing:
            return
    raise AssertionError(f"no samples of {missing}")


@contextmanager
def traffic(lab: RunningLab) -> Iterator[None]:
    """Send to and from every node: only a link that is up can receive it."""
    cluster = clusterfile.load(lab.cluster)
    addresses = [str(node.ports[0].address) for node in cluster.nodes.values()]
    # They end with their input, or by themselves, whatever happens to the test.
    commands = [f"ping -q -i 0.02 -s 1000 -w 120 {address} & cat; kill $!" for address in addresses]
    pings = [
        lab.start_inside(node, command)
        for node, command in zip(cluster.nodes, (*commands[1:], commands[0]), strict=True)
    ]
    try:
        yield
    finally:
        for ping in pings:
            ping.communicate()
