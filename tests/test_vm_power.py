"""Machines that lose power or reboot.

The last file of its group: a machine that boots takes long, and is busy loading torch for a while after it is up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.labs import RunningLab

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]


@pytest.fixture
def healed(vm_lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults and with every node up after the test."""
    yield vm_lab
    vm_lab.heal()


CONFIGURATION = "hostname; cat /etc/machine-id; ip -br addr show rail0; ibv_devinfo -d rxe0 | grep -E 'guid|active_mtu'"


@pytest.mark.soak
def test_a_killed_node_comes_back_as_it_was(healed: RunningLab) -> None:
    """A fault that came meanwhile is in force on it."""
    before = healed.shell("node2", f"touch /root/file && sync; {CONFIGURATION}").out
    assert healed.fault("kill", "node2").code == 0
    assert healed.status()["states"] == {"node1": "up", "node2": "off", "nexus": "up"}
    assert healed.fault("cut", "rail1").code == 0
    assert healed.fault("heal", "node2").code == 0
    output = healed.shell("node2", "ls /root/file; rdma link").out
    assert "/root/file" in output
    assert "rxe0/1 state ACTIVE" in output
    assert "rxe1/1 state DOWN" in output
    assert healed.shell("node2", CONFIGURATION).out == before
    assert " 0% packet loss" in healed.shell("node1", "ping -c 2 -i 0.2 -W 2 node2").out


@pytest.mark.soak
def test_a_node_that_reboots_comes_back_as_it_was_but_for_its_qos_settings(vm_lab: RunningLab) -> None:
    before = vm_lab.shell("node1", CONFIGURATION).out
    assert vm_lab.shell("node1", "dcb pfc set dev rail0 prio-pfc 3:on").code == 0
    boot = vm_lab.shell("node1", "cat /proc/sys/kernel/random/boot_id").out
    vm_lab.shell("node1", "systemctl reboot")
    deadline = time.monotonic() + 300
    while (now := vm_lab.shell("node1", "cat /proc/sys/kernel/random/boot_id")).code or now.out == boot:
        assert time.monotonic() < deadline, now
        time.sleep(1)
    vm_lab.shell("node1", "systemctl is-system-running --wait >/dev/null")
    assert vm_lab.shell("node1", CONFIGURATION).out == before
    assert "on" not in vm_lab.shell("node1", "dcb pfc show dev rail0 prio-pfc").out.split("prio-pfc")[1]
    assert " 0% packet loss" in vm_lab.shell("node1", "ping -c 2 -i 0.2 -W 2 node2").out


def test_a_killed_node_is_off(vm_lab: RunningLab) -> None:
    """The last of all tests with the lab: the machine stays off."""
    assert vm_lab.fault("kill", "node2").code == 0
    assert vm_lab.status()["states"] == {"node1": "up", "node2": "off", "nexus": "up"}
    refused = vm_lab.fault("freeze", "node2")
    assert (refused.code, "node2 was killed" in refused.err) == (2, True)
