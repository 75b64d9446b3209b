"""Changes that a person makes to nodes during a training: each restart is explained by what had changed by then."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railbed import clusterfile
from tests.support.labs import RunningLab, call
from tests.support.training import Training, training, training_site

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("nettrain")]
SLOW = ("slow", "rail0", "8M")
"""Makes steps long without keeping the processor busy, so that changes come in the middle of them."""
NODES = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def site(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return training_site(netns_lab, tmp_path_factory.mktemp("changed"), nodes=len(NODES), python=warm_python)


@pytest.fixture
def lab(site: RunningLab) -> Iterator[RunningLab]:
    """The lab with a slow rail, whose nodes send no packets that are larger than the MTU; as it was after the test."""
    assert site.fault(*SLOW).code == 0
    for node in NODES:
        run_on(site, node, "ethtool -K rail0 tso off gso off")
    yield site
    for node in NODES:
        run_on(site, node, "ethtool -K rail0 tso on gso on")
    run_on(site, "node2", "ip link set rail0 mtu 9000")
    run_on(site, "node3", f"ip addr del {address_of(site, 'node1')} dev rail0 || true")
    site.heal()


def address_of(lab: RunningLab, node: str) -> str:
    cluster = clusterfile.load(lab.cluster)
    subnet = cluster.rails["rail0"].subnet
    assert subnet
    return f"{cluster.nodes[node].ports[0].address}/{subnet.prefixlen}"


def run_on(lab: RunningLab, node: str, command: str) -> None:
    assert lab.run_inside(node, command).code == 0


def restart_after(lab: RunningLab, run: Training, node: str, command: str) -> list[dict[str, Any]]:
    """Change a node once some steps were made; return the findings of the check at the restart that follows."""
    run.until(lambda _: run.steps >= 4 and len(run.nodes) == len(NODES))
    begin = len(run.records)
    run_on(lab, node, command)
    run.until(lambda record: record.get("name") == "restart_checked")
    run.until(lambda _: run.steps > 0)
    return [record for record in run.records[begin:] if record["kind"] == "finding"]


def test_each_restart_is_explained_by_what_somebody_had_changed_and_a_killed_rank_by_nothing(lab: RunningLab) -> None:
    node1 = address_of(lab, "node1")
    address = node1.partition("/")[0]
    with training(lab, "small.yaml", "-c", "cluster.yaml", "--min-nodes", "2", "--set", "steps=100000") as run:
        killed = restart_after(lab, run, "node3", "timeout 20 sh -c 'until pkill -KILL ^rank; do sleep 0.1; done'")
        (mtu,) = restart_after(lab, run, "node2", "ip link set rail0 mtu 1400")
        run_on(lab, "node2", "ip link set rail0 mtu 9000")
        (duplicate,) = restart_after(lab, run, "node3", f"ip addr add {node1} dev rail0")
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130
    assert killed == []
    assert (mtu["check"], mtu["subject"], mtu["observed"], mtu["before"]) == (
        "mtu",
        "node2/rail0",
        "MTU 1400",
        "MTU 9000",
    )
    assert (duplicate["check"], duplicate["subject"]) == ("address_unique", "node3/rail0")
    assert duplicate["observed"] == f"has {address}, the address of node1/rail0"
    assert mtu["generation"] < duplicate["generation"]
    verdicts = call(lab.folder, "diagnose", "--json").findings
    changed = {finding["subject"]: finding for finding in verdicts if finding["check"] == "path_changed"}
    assert changed.keys() == {"node2/rail0", "node3/rail0"}
    assert changed["node2/rail0"]["observed"].startswith(
        "MTU 1400, before the launch: MTU 9000 (mtu); found at a restart: "
    )
    assert changed["node2/rail0"]["remedy"] == mtu["remedy"] == "ip link set dev rail0 mtu 9000"
    assert {finding["certainty"] for finding in changed.values()} == {"likely"}
    # On a machine that is much too busy, ranks miss their heartbeats as well, which is then a restart of its own.
    (by_kill,) = (finding for finding in verdicts if "SIGKILL" in finding["observed"])
    assert (by_kill["check"], by_kill["subject"], by_kill["verdict"]) == ("training_restart", "node3", "fail")
    assert "launch" not in by_kill["observed"]
    assert call(lab.folder, "report", "--format", "md", "--output", "report.md").code == 0
    assert "Changed since the launch: node2/rail0: MTU 1400" in (lab.folder / "report.md").read_text()
