"""What survives a boot, a power cut, and the end of the process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchlab.esxi.model.description import read_description
from switchlab.esxi.servers.control import HostControl
from tests.switchlab.esxi.support import SITE, Clock, host, run

CHANGE = 'esxcli system module parameters set -m nmlx5_core -p "pfctx=0x08 max_vfs=4,4"'


def test_a_change_is_lost_in_a_power_cut_unless_it_was_backed_up() -> None:
    machine = host()
    run(machine, CHANGE)
    machine.cut_power()
    assert machine.stored["nmlx5_core"] == "max_vfs=4,4"
    run(machine, f"{CHANGE}; /sbin/auto-backup.sh")
    machine.cut_power()
    assert machine.stored["nmlx5_core"] == "pfctx=0x08 max_vfs=4,4"


def test_the_state_folder_has_what_is_stored(tmp_path: Path) -> None:
    run(host(state=tmp_path), f"{CHANGE}; esxcli network vswitch standard set -v vSwitch1 -m 9000")
    again = host(state=tmp_path)
    assert again.stored["nmlx5_core"] == "pfctx=0x08 max_vfs=4,4"
    assert again.pending == [], "a start is a boot"
    assert again.description.vswitches[0].mtu == 9000


def test_counters_advance_and_a_boot_clears_them() -> None:
    machine = host()
    clock = machine.clock
    assert isinstance(clock, Clock)
    counters = machine.nics["vmnic3"].counters
    counters.clock = clock
    counters.add("rxbytes", 100)
    counters.grow("rxbytes", 10)
    clock.now += 5
    assert counters.get("rxbytes") == 150
    counters.grow("rxbytes", 0)
    clock.now += 5
    assert counters.get("rxbytes") == 150
    machine.reboot()
    assert counters.get("rxbytes") == 0


def test_while_it_reboots_nobody_reaches_it() -> None:
    machine = host()
    assert isinstance(machine.clock, Clock)
    machine.reboot(seconds=60)
    assert not machine.is_reachable
    machine.clock.now += 60
    assert machine.is_reachable


def test_requests() -> None:
    machine = host()
    control = HostControl(machine)

    def perform(action: str, **arguments: object) -> object:
        answer = control.perform({"do": action, **arguments})
        assert answer["ok"], answer
        return answer["result"]

    perform("peer", nic="vmnic4", dcbx="ieee", pfc=8)
    assert machine.dcb_of(machine.nics["vmnic4"]).is_on
    assert perform("pause", nic="vmnic4", frames=3, priority=3, direction="tx") == 3
    perform("traffic", nic="vmnic4", bytes=8192)
    perform("add", nic="vmnic4", counter="rxcrcerr", amount=2)
    counters = perform("counters", nic="vmnic4")
    assert isinstance(counters, dict)
    assert (counters["rxbytes"], counters["rxpkt"], counters["rxcrcerr"]) == (8192, 2, 2)
    assert counters["tx_prio3_pause"] == 3
    perform("link", nic="vmnic4", up=False)
    assert "vmnic4  0000:18:00.1 nmlx5_core  Down 0Mbps" in run(machine, "esxcfg-nics -l")
    assert perform("power", vm="vm1", on=False) is False
    assert perform("power", vm="vm1", on=True) is True
    perform("age", seconds=90)
    assert "up 00:01:30" in run(machine, "uptime")
    perform("power_cut")
    state = perform("state")
    assert isinstance(state, dict)
    assert (state["boots"], state["vms"]) == (2, {"vm1": True, "vm2": True})


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"do": "link", "nic": "vmnic9", "up": True}, "the host has no nic vmnic9"),
        ({"do": "peer", "nic": "vmnic3", "dcbx": "x"}, "dcbx must be ieee, cee or empty"),
        ({"do": "pause", "nic": "vmnic3", "priority": 8}, "priority must be from 0 to 7"),
        ({"do": "lockdown", "mode": "x"}, "mode must be one of off, on, read-only"),
        ({"do": "power", "vm": "x", "on": True}, "the host has no VM x"),
        ({"do": "nosuch"}, "the field do must be one of reboot"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(request_: dict[str, object], error: str) -> None:
    answer = HostControl(host()).perform(request_)
    assert not answer["ok"]
    assert error in str(answer["error"])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"nics": [{"name": "vmnic1"}]}, "pci must be text"),
        ({"nics": [{"name": "a", "pci": "1", "mac": "b"}]}, "'1' is not a PCI address"),
        ({"nics": [{"name": "a", "pci": "0000:01:00.0", "mac": "b", "driver": "x"}]}, "no driver x"),
        ({"modules": {"nmlx4_core": ""}}, "no module nmlx4_core"),
        ({"vms": [{"name": "a", "vfs": [{"nic": "vmnic9", "number": 0}]}]}, "vmnic9, which is not among the nics"),
        ({"nosuch": 1}, "unknown field nosuch"),
        ({"nics": 1}, "nics must be a list of objects"),
    ],
)
def test_a_mistake_in_the_description_is_a_sentence(change: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error.replace("(", r"\(")):
        read_description(json.dumps({**SITE, **change}))


def test_a_description_that_is_not_json() -> None:
    with pytest.raises(ValueError, match="the description is not JSON"):
        read_description("{")
    assert read_description("").nics == []
