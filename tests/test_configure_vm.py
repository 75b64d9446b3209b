"""configure on two virtual machines and a switch: both ends become lossless, stay so, and come back as they were."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.model.cluster import Secret
from tests.support.configuring import applied, changes, configure, running, show
from tests.support.labs import RunningLab

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
NODES = ("node1", "node2")
RAILS = ("rail0", "rail1")
STATE = (
    "for rail in rail0 rail1; do for kind in pfc ets buffer app; do dcb -j $kind show dev $rail; echo; done; done; "
    "ls /sys/kernel/config/rdma_cm; systemctl is-enabled railbed.service; find /etc -type f -exec sha256sum {} + | sort"
)
"""Prints everything that configure changes on a node."""
LOSSLESS = ("pfc", "dscp_map", "cable_pfc", "switch_pfc", "switch_dscp", "switch_cnp", "switch_network_qos")
"""The rules that judge whether both ends of a cable are lossless."""
LOSE_QOS = "modprobe -r railbed_dcb && modprobe railbed_dcb"
"""Loses the QoS settings, as a reboot does."""


@pytest.fixture
def lab(vm_lab: RunningLab, tmp_path: Path) -> RunningLab:
    """The lab with a working folder of its own."""
    return vm_lab.seen_from(tmp_path, rails=RAILS)


def states(lab: RunningLab) -> dict[str, str]:
    """Return the state of every device that configure may change."""
    nodes = {node: lab.shell(node, STATE).out for node in NODES}
    return nodes | {which: running(lab, which) for which in ("running", "startup")}


def test_both_ends_of_a_cable_become_lossless_stay_so_and_come_back_as_they_were(lab: RunningLab) -> None:
    scope = ("--only", "node1", "--only", "nexus", *(word for rule in LOSSLESS for word in ("--rule", rule)))
    before = state_of_cable(lab)
    shown = configure(lab, *scope)
    assert {subject.partition("/")[0] for subject in changes(shown)} == {"node1", "nexus"}
    assert state_of_cable(lab) == before, "showing changes nothing"

    run = applied(lab, *scope)
    others = {(rule, f"node2/{rail}") for rule in ("pfc", "dscp_map") for rail in RAILS}
    still = lab.failing(*LOSSLESS)
    assert still >= others
    assert {place for _, place in still if not place.startswith("node2/")} == set()
    assert lab.shell("node1", f"{LOSE_QOS} && systemctl restart railbed.service").code == 0
    assert lab.failing("pfc", "dscp_map") == others
    assert running(lab, "running") == running(lab, "startup"), "the switch would forget it"

    assert configure(lab, "--undo", run, "--yes").code == 0
    assert state_of_cable(lab) == before


def state_of_cable(lab: RunningLab) -> dict[str, str]:
    """Return the state of node1 and of the switch."""
    return {"node1": lab.shell("node1", STATE).out} | {which: running(lab, which) for which in ("running", "startup")}


@pytest.mark.soak
def test_both_ends_are_lossless_after_configure_and_as_before_after_undo(lab: RunningLab) -> None:
    before = states(lab)
    assert {
        *((rule, f"{node}/{rail}") for rule in ("pfc", "dscp_map", "cable_mtu") for node in NODES for rail in RAILS),
        *((rule, f"nexus/Ethernet1/{port}") for rule in ("switch_pfc", "switch_dscp", "switch_cnp") for port in (1, 4)),
        ("switch_network_qos", "nexus"),
    } <= lab.failing()

    shown = configure(lab)
    assert shown.code == 1
    assert {subject.partition("/")[0] for subject in changes(shown)} == {*NODES, "nexus"}
    assert states(lab) == before, "showing changes nothing"

    run = applied(lab)
    assert lab.failing() == set()
    assert not_lasting(lab) == set()
    again = configure(lab)
    assert (again.code, changes(again)) == (0, {})

    reboot(lab, "node1")
    assert lab.failing(seconds=300) == set()
    assert not_lasting(lab, seconds=300) == set()
    assert changes(configure(lab)) == {}

    # What only the unit stores is right now, and would be gone after the next reboot.
    assert lab.shell("node1", "systemctl disable --quiet railbed.service").code == 0
    lost = not_lasting(lab)
    assert lost >= {(rule, f"node1/{rail}") for rule in ("pfc", "dscp_map", "ets", "buffers") for rail in RAILS}
    assert {subject.partition("/")[0] for _, subject in lost} == {"node1"}
    assert lab.failing() == set()
    assert changes(configure(lab, "--only", "node1"))["node1"], "it would enable the unit again"
    assert lab.shell("node1", "systemctl enable --quiet railbed.service").code == 0
    assert not_lasting(lab) == set()

    show(lab, "configure terminal ; interface Ethernet1/2 ; no priority-flow-control mode on")
    assert lab.failing("switch_pfc", "cable_pfc") == {("switch_pfc", "nexus/Ethernet1/2"), ("cable_pfc", "node1/rail1")}
    assert list(changes(configure(lab, "--only", "nexus"))) == ["nexus/Ethernet1/2"]

    undone = configure(lab, "--undo", run, "--yes")
    assert undone.code == 0, undone
    assert states(lab) == before


@pytest.mark.soak
def test_a_network_setting_survives_a_reboot_in_a_file_of_the_network_manager(lab: RunningLab) -> None:
    """The file that networkd reads at boot has another MTU than the cluster file."""
    network = "/etc/systemd/network/*rail0.network"
    assert lab.shell("node1", f"sed -i.before s/MTUBytes=.*/MTUBytes=1500/ {network} && networkctl reload").code == 0
    deadline = time.monotonic() + 60
    while ("mtu", "node1/rail0") not in lab.failing("mtu"):
        assert time.monotonic() < deadline
    before = lab.shell("node1", STATE).out
    run = applied(lab, "--only", "node1", "--rule", "mtu")
    reboot(lab, "node1")
    assert lab.failing("mtu", "rail_address", "rdma_mtu") == set()
    assert configure(lab, "--undo", run, "--yes").code == 0
    assert lab.shell("node1", STATE).out == before
    assert ("mtu", "node1/rail0") in lab.failing("mtu")
    assert (
        lab.shell("node1", f"cd /etc/systemd/network && mv *rail0.network.before {network} && networkctl reload").code
        == 0
    )


@pytest.mark.soak
def test_sudo_gets_its_password_and_nothing_else_does(lab: RunningLab) -> None:
    prepare = (
        "useradd -m -s /bin/bash ada; echo ada:hunter-41 | chpasswd; echo 'ada ALL=(ALL) ALL' >/etc/sudoers.d/ada; "
        "install -d -o ada -m 700 ~ada/.ssh; install -o ada ~/.ssh/authorized_keys ~ada/.ssh/"
    )
    assert lab.shell("node1", prepare).code == 0
    cluster = clusterfile.load(lab.cluster)
    node = cluster.nodes["node1"]
    login = node.login.model_copy(update={"user": "ada", "sudo": Secret(env="ADA_PASSWORD")})
    nodes = {**cluster.nodes, "node1": node.model_copy(update={"login": login})}
    (lab.folder / "ada.yaml").write_text(clusterfile.dumps(cluster.model_copy(update={"nodes": nodes})))
    scope = ("--only", "node1", "--rule", "pfc")
    right, wrong = (
        replace(lab, cluster=lab.folder / "ada.yaml", variables={**lab.variables, "ADA_PASSWORD": password})
        for password in ("hunter-41", "hunter-42")
    )
    try:
        refused = configure(wrong, *scope, "--apply", "--yes")
        assert refused.code != 0
        assert "hunter" not in refused.out + refused.err
        assert lab.failing("pfc") >= {("pfc", "node1/rail0")}
        run = applied(right, *scope)
        assert ("pfc", "node1/rail0") not in lab.failing("pfc")
        assert configure(right, "--undo", run, "--yes").code == 0
        assert not [path for path in lab.folder.rglob("*") if path.is_file() and b"hunter" in path.read_bytes()]
    finally:
        lab.shell("node1", "userdel -rf ada; rm -f /etc/sudoers.d/ada")


def not_lasting(lab: RunningLab, seconds: int = 120) -> set[tuple[str, str]]:
    """Return the rules whose setting is right now and not restored by the next boot, with their subjects."""
    findings = lab.railbed("check", "--json", "--timeout", str(seconds)).findings
    return {(each["check"], each["subject"]) for each in findings if each["fix"] and each["fix"]["at_boot_only"]}


def reboot(lab: RunningLab, node: str) -> None:
    """Reboot a node, and wait until it is up again."""
    boot = lab.shell(node, "cat /proc/sys/kernel/random/boot_id").out
    lab.shell(node, "systemctl reboot")
    deadline = time.monotonic() + 300
    while (now := lab.shell(node, "cat /proc/sys/kernel/random/boot_id")).code or now.out == boot:
        assert time.monotonic() < deadline, now
        time.sleep(1)
    assert lab.shell(node, "systemctl is-system-running --wait").out == "running\n"
