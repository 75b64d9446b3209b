"""configure on cards with the settings of OFED and the inbox driver: no card of a lab accepts them, stand-ins do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.model.cluster import Policy
from tests.support.cards import card, state
from tests.support.cli import Result
from tests.support.labs import RunningLab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("configure")]
RULES = ("pfc", "dscp_trust", "dscp_map", "ets", "buffers", "dcqcn", "cnp_dscp", "roce_tos")
SETTABLE = {
    "node1": {"pfc", "dscp_trust", "dscp_map", "ets", "dcqcn", "cnp_dscp", "roce_tos"},
    "node2": {"dscp_trust", "dscp_map", "ets", "buffers", "cnp_dscp", "roce_tos"},
}
"""What is wrong with a card after start-up: OFED on node1; the inbox driver on node2, where PFC is on already."""


@pytest.fixture
def lab(netns_lab: RunningLab, tmp_path: Path) -> Iterator[RunningLab]:
    """Two nodes with a ConnectX card each: node1 with OFED, node2 with the inbox driver."""
    lab = netns_lab.seen_from(tmp_path, nodes=2)
    cluster = clusterfile.load(lab.cluster)
    nodes = {
        name: node.model_copy(
            update={"ports": tuple(port.model_copy(update={"rdma": "mlx5_0"}) for port in node.ports)}
        )
        for name, node in cluster.nodes.items()
    }
    lab.cluster.write_text(clusterfile.dumps(cluster.model_copy(update={"nodes": nodes, "policy": Policy()})))
    with card(lab, "node1", "ofed"), card(lab, "node2", "inbox"):
        yield lab


def configure(lab: RunningLab, *options: str) -> Result:
    rules = [word for rule in RULES for word in ("--rule", rule)] if "--undo" not in options else []
    return lab.railbed("configure", "--json", "--timeout", "120", *rules, *options)


def states(lab: RunningLab) -> tuple[str, str]:
    return state(lab, "node1", "ofed"), state(lab, "node2", "inbox")


def changed(result: Result) -> dict[str, set[str]]:
    """Return the rules whose fixes are among the changes, by node."""
    rules: dict[str, set[str]] = {}
    for record in result.records:
        if record["kind"] == "change" and not record["left_out"]:
            rules.setdefault(record["subject"].partition("/")[0], set()).update(record["check"].split(", "))
    return rules


def test_every_setting_is_applied_read_back_and_undone(lab: RunningLab) -> None:
    before = states(lab)
    assert changed(configure(lab)) == SETTABLE
    assert states(lab) == before
    applied = configure(lab, "--apply", "--yes")
    assert applied.code == 0, applied
    verdicts = lab.verdicts(*RULES)
    assert {key: verdict for key, verdict in verdicts.items() if verdict != "ok"} == {
        # The inbox driver has no switch for it, and the card has counted no notifications.
        ("dcqcn", "node2/rail0"): "unknown"
    }
    again = configure(lab)
    assert (again.code, changed(again)) == (0, {})
    (run,) = [path.name for path in (lab.folder / "runs").glob("*-configure*") if (path / "undo.jsonl").exists()]
    undone = configure(lab, "--undo", run, "--yes")
    assert undone.code == 0, undone
    assert states(lab) == before


@pytest.mark.parametrize("subject", ["ets", pytest.param("buffer", marks=pytest.mark.soak)])
def test_values_that_the_kernel_refuses_silently_fail_and_the_node_is_restored(lab: RunningLab, subject: str) -> None:
    assert lab.run_inside("node2", f"echo {subject} >/run/card/refuse").code == 0
    before = states(lab)
    result = configure(lab, "--apply", "--yes", "--only", "node2")
    assert result.code == 1
    (event,) = [record for record in result.records if record.get("name") == "device_changed"]
    assert event["data"]["outcome"] == "restored"
    assert "it had no effect: other values were read back" in event["message"]
    assert f"(at: dcb {subject} set dev rail0" in event["message"]
    assert states(lab) == before
