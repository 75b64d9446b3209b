"""The list to tick while a cluster is brought up: its boxes come from the rules, its ticks from findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from railbed.check.book import CHECK_BOOK, usual_checks
from railbed.check.checklist import ChecklistItem, list_boxes
from railbed.clusterfile import load
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Verdict
from railbed.rules.rule import Stage

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
STAGES: Sequence[Stage] = get_args(Stage)


def example(name: str) -> Cluster:
    return load(next(path for path in EXAMPLES if path.stem == name))


def finding(check: str, subject: str, verdict: Verdict = Verdict.OK, observed: str = "fine") -> Finding:
    return Finding(check=check, subject=subject, verdict=verdict, expected="", observed=observed, why="")


def boxes(cluster: Cluster, check: str, *findings: Finding, by_hand: bool = False) -> list[ChecklistItem]:
    items = list_boxes(cluster, findings, [CHECK_BOOK.rules[check]])
    return [item for item in items if item.by_hand == by_hand]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_stage_comes_in_order_with_what_is_done_by_hand_first(path: Path) -> None:
    items = list_boxes(load(path))
    keys = [(STAGES.index(item.stage), not item.by_hand) for item in items]
    assert keys == sorted(keys)
    missing = {*STAGES} - {item.stage for item in items}
    assert missing <= {"switch"}
    assert not any(item.is_done or item.remaining or item.verdict for item in items)


def test_a_rule_that_judges_something_has_a_box_with_its_subjects() -> None:
    cluster = example("two-roce-vms")
    (box,) = boxes(cluster, "link_up")
    assert box.subjects == ("vm1/ens192", "vm2/ens192")
    assert (box.stage, box.command, box.text) == ("cabling", "railbed check link_up", CHECK_BOOK.rules["link_up"].title)
    judged = {item.check for item in list_boxes(cluster) if not item.by_hand}
    assert judged <= {rule.name for rule in usual_checks()}
    assert {"reachable", "cabling", "pcie_bandwidth", "pfc", "switch_pfc", "mtu_path", "torch_equal"} <= judged


def test_what_the_cluster_file_makes_pointless_has_none() -> None:
    desktops = example("three-desktops")
    assert {item.check for item in list_boxes(desktops)} & {"pfc", "rdma_device", "switch_pfc", "cabling"} == set()


def test_cables_are_named_with_both_ends() -> None:
    def texts(name: str) -> list[str]:
        items = list_boxes(example(name))
        return [item.text for item in items if item.by_hand and item.stage == "cabling"]

    assert texts("two-roce-vms") == [
        "plug its cable into nexus Ethernet1/1",
        "plug its cable into nexus Ethernet1/2",
    ]
    assert texts("v100-back-to-back") == ["connect gpu1/ens3f0 to gpu2/ens3f0", "connect gpu1/ens3f1 to gpu2/ens3f1"]
    assert texts("three-desktops") == ["plug in its cable to lan; the link light comes on"]


def test_the_same_step_on_several_nodes_is_one_box() -> None:
    (box,) = boxes(example("v100-switched"), "gpu_driver", by_hand=True)
    assert box.subjects == ("gpu1", "gpu2")


def test_logins_are_those_of_the_cluster_file() -> None:
    texts = [item.text for item in boxes(example("two-roce-vms"), "reachable", by_hand=True)]
    assert ["ssh ubuntu@192.168.250.201" in texts[0], "ssh admin@192.168.250.1" in texts[-1]] == [True, True]
    local = Cluster.model_validate({"name": "here", "nodes": {"here": {"host": "local"}}})
    assert boxes(local, "reachable", by_hand=True) == []


def test_a_box_is_ticked_if_all_of_its_subjects_passed() -> None:
    cluster = example("two-roce-vms")
    passed = [finding("link_up", "vm1/ens192"), finding("link_up", "vm2/ens192", Verdict.SKIPPED)]
    (box,) = boxes(cluster, "link_up", *passed)
    assert box.is_done
    assert box.time == passed[1].time
    (box,) = boxes(cluster, "link_up", passed[0], finding("link_up", "vm2/ens192", Verdict.FAIL, "no link"))
    assert (box.is_done, box.verdict, box.remaining) == (False, Verdict.FAIL, ("vm2/ens192: no link",))


def test_the_worst_of_several_findings_about_a_subject_counts() -> None:
    cluster = example("v100-switched")
    twice = [finding("gpu_driver", "gpu1", Verdict.WARN, "1 of 2 GPUs"), finding("gpu_driver", "gpu1")]
    (box,) = boxes(cluster, "gpu_driver", *twice, finding("gpu_driver", "gpu2"))
    assert (box.verdict, box.remaining) == (Verdict.WARN, ("gpu1: 1 of 2 GPUs",))


def test_what_did_not_answer_is_not_ticked() -> None:
    cluster = example("two-roce-vms")
    (box,) = boxes(cluster, "link_up", finding("link_up", "vm1/ens192"))
    assert (box.is_done, box.verdict, box.remaining) == (False, Verdict.UNKNOWN, ("vm2/ens192: not checked",))
    silent = finding("reachable", "vm2", Verdict.FAIL, "no route to host")
    (box,) = boxes(cluster, "kernel_equal", finding("kernel_equal", "cluster"), silent)
    assert (box.is_done, box.remaining) == (False, ("vm2: not checked",))
    (box,) = boxes(cluster, "kernel_equal", finding("kernel_equal", "cluster"), finding("reachable", "vm2"))
    assert box.is_done


def test_a_step_is_ticked_by_its_rule_only_where_that_proves_it() -> None:
    cluster = example("two-roce-vms")
    first, second = boxes(
        cluster,
        "cabling",
        finding("cabling", "vm1/ens192"),
        finding("cabling", "vm2/ens192", Verdict.FAIL, "nexus Ethernet1/3"),
        by_hand=True,
    )
    assert (first.is_done, second.is_done) == (True, False)
    assert second.remaining == ("vm2/ens192: nexus Ethernet1/3",)
    (profile,) = boxes(cluster, "governor", finding("governor", "vm1"), finding("governor", "vm2"), by_hand=True)
    assert (profile.is_done, profile.verdict, profile.command) == (False, None, "railbed check --explain governor")
