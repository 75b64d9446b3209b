"""QoS settings on the rails of virtual machines, through the kernel's own interface: set, read, refused and lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.labs import RunningLab

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
REFUSED = (
    "buffer set dev rail0 buffer-size all:0 0:1Mb",
    "ets set dev rail0 tc-tsa all:cbs",
    "app add dev rail0 ethtype-prio 0x8915:3",
)
"""More than the buffer, a scheduler that cards lack, and a priority by EtherType."""
RESET = "modprobe -r railbed_dcb && modprobe railbed_dcb"


@pytest.fixture
def lab(vm_lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, with the settings of a node that has just booted before and after the test."""
    yield vm_lab
    assert vm_lab.run_inside("node1", RESET).code == 0


def dcb(lab: RunningLab, *commands: str) -> list[Any]:
    """Run `dcb` on node1, and return what each command prints as JSON.

    `dcb` of iproute2 numbers its requests by the second, and fails if a slow machine answers in the next one.
    """
    twice = "; ".join(f"{{ dcb -j {command} || dcb -j {command}; }}; echo" for command in commands)
    result = lab.run_inside("node1", f"set -e; {twice}")
    assert result.code == 0, result
    return [json.loads(line) for line in result.out.splitlines() if line.strip()]


def test_settings_are_read_back_and_do_not_outlive_the_module(vm_lab: RunningLab) -> None:
    pfc, ets, buffer, maxrate, app = dcb(
        vm_lab,
        "pfc set dev rail0 prio-pfc all:off 3:on",
        "ets set dev rail0 tc-tsa all:strict 3:ets 0:ets tc-bw all:0 3:60 0:40 prio-tc all:0 3:3",
        "buffer set dev rail0 prio-buffer all:0 3:1 buffer-size all:0 0:100Kb 1:150Kb",
        "maxrate set dev rail0 tc-maxrate 3:10Gbit",
        "app replace dev rail0 dscp-prio 26:3 48:6",
        *(f"{kind} show dev rail0" for kind in ("pfc", "ets", "buffer", "maxrate", "app")),
    )
    assert pfc["prio_pfc"] == [priority == 3 for priority in range(8)]
    assert (ets["tc_bw"], ets["prio_tc"]) == ([40, 0, 0, 60, 0, 0, 0, 0], [0, 0, 0, 3, 0, 0, 0, 0])
    assert buffer["prio_buffer"] == [int(priority == 3) for priority in range(8)]
    assert buffer["buffer_size"][:2] == [100 * 1024, 150 * 1024]
    assert maxrate["tc_maxrate"][3] == 1_250_000_000
    assert app["dscp_prio"] == [[26, 3], [48, 6]]
    assert vm_lab.run_inside("node1", RESET).code == 0
    pfc, app = dcb(vm_lab, "pfc show dev rail0", "app show dev rail0")
    assert pfc["prio_pfc"] == [False] * 8
    assert app == {}


@pytest.mark.soak
def test_what_a_card_refuses_is_not_set(lab: RunningLab) -> None:
    """The state is what counts: for buffers and ETS, `dcb` of iproute2 6.1 hides the kernel's error."""
    states = [f"{kind} show dev rail0" for kind in ("buffer", "ets", "app")]
    before = dcb(lab, *states)
    lab.run_inside("node1", "; ".join(f"dcb {command}" for command in REFUSED))
    assert dcb(lab, *states) == before


@pytest.mark.soak
def test_traffic_is_not_affected(lab: RunningLab) -> None:
    command = (
        "tc -s qdisc show dev rail0 | head -1; ping -q -c 3 -i 0.2 -W 2 -M do -s 8000 node2 | grep -c ' 0% packet loss'"
    )
    before = lab.run_inside("node1", command).out
    dcb(lab, "pfc set dev rail0 prio-pfc all:on", "maxrate set dev rail0 tc-maxrate all:1Kbit")
    assert lab.run_inside("node1", command).out == before
    assert before.endswith("\n1\n")
