"""What the commands read, change and refuse."""

from __future__ import annotations

import csv
import json
from xml.etree import ElementTree

import pytest

from switchlab.esxi.commands.esxcli import COMMANDS
from switchlab.esxi.formats.machine import NAMESPACE
from switchlab.esxi.model.release import RELEASES
from tests.switchlab.esxi.support import SITE, host, refuse, run, type_in


def test_stored_parameters_do_not_run_before_a_reboot() -> None:
    machine = host()
    assert "PFC Enabled: false" in run(machine, "esxcli network nic dcb status get -n vmnic4")
    run(machine, 'esxcli system module parameters set -m nmlx5_core -p "pfctx=0x08 pfcrx=0x08 max_vfs=4,4"')
    assert "PFC Enabled: false" in run(machine, "esxcli network nic dcb status get -n vmnic4")
    assert machine.pending == ["nmlx5_core"]
    machine.reboot()
    assert "PFC Configuration: 0 0 0 1 0 0 0 0" in run(machine, "esxcli network nic dcb status get -n vmnic4")
    assert machine.pending == []


def test_a_set_replaces_the_whole_string_and_append_adds_to_it() -> None:
    machine = host()
    run(machine, 'esxcli system module parameters set -m nmlx5_core -p "dcbx=1"')
    assert run(machine, "esxcfg-module -g nmlx5_core") == "nmlx5_core enabled = 1 options = 'dcbx=1'\n"
    run(machine, 'esxcli system module parameters set -a -m nmlx5_core -p "ecn=1"')
    assert "options = 'dcbx=1 ecn=1'" in run(machine, "esxcfg-module -g nmlx5_core")
    run(machine, 'esxcfg-module -s "trust_state=2" nmlx5_core')
    assert "options = 'trust_state=2'" in run(machine, "esxcfg-module -g nmlx5_core")
    run(machine, 'esxcli system module parameters set -m nmlx5_core -p ""')
    assert "options = ''" in run(machine, "esxcfg-module -g nmlx5_core")


def test_the_list_of_parameters_is_the_stored_one() -> None:
    machine = host()
    run(machine, 'esxcli system module parameters set -m nmlx5_core -p "pfctx=0x08 max_vfs=2,2"')
    table = run(machine, "esxcli system module parameters list -m nmlx5_core")
    values = {
        line.split()[0]: line[37:].split()[0] for line in table.splitlines() if line.startswith(("pfctx", "max_"))
    }
    assert values == {"pfctx": "0x08", "max_vfs": "2,2"}


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("esxcli system module parameters set -m nmlx5_core -p pcf=1", "params are invalid: pcf"),
        ("esxcli system module parameters set -m nmlx5_core -p pfctx", "params are invalid: pfctx"),
        ("esxcli system module parameters set -m nmlx4_core -p pfctx=1", "Unable to find module: nmlx4_core"),
        ("esxcfg-module -g nosuch", "Unable to find module: nosuch"),
        ("esxcli system module parameters set -m nmlx5_core", "Missing required parameter -p|--parameter-string"),
        ("esxcli network nic get", "Missing required parameter -n|--nic-name"),
        ("esxcli network nic get -n vmnic9", "Unable to find NIC vmnic9"),
        ("esxcli network nic pauseParams get", "Unknown command or namespace network nic pauseParams get"),
        ("esxcli network nic pauseParams set -n vmnic4 --rx-pause=true", "Invalid option --rx-pause"),
        ("esxcli network nic pauseParams set -n vmnic4 -r maybe", "Invalid value"),
        ("esxcli network nic ring current get -n vmnic3", "Not supported"),
        ("esxcli network vswitch standard set -v vSwitch1 -m 90000", "Bad parameter"),
        ("esxcli --formatter=yaml network nic list", "Unknown formatter yaml"),
        ("vsish -e cat /net/pNics/vmnic9/stats", "Extraneous 'vmnic9' in path"),
        ("esxcli system maintenanceMode set -e true", "virtual machines: vm1, vm2"),
        ("esxcfg-module -u nmlx5_core", "esxcfg-module <options>"),
    ],
)
def test_a_mistake_is_refused(line: str, refusal: str) -> None:
    machine = host()
    before = dict(machine.stored)
    assert refusal in refuse(machine, line)
    assert machine.stored == before


def test_global_pause_is_refused_beside_pfc_and_accepted_without() -> None:
    machine = host()
    assert "Sysinfo" in refuse(machine, "esxcli network nic pauseParams set -n vmnic3 -r true -t true")
    run(machine, "esxcli network nic pauseParams set -n vmnic4 -r false -t false")
    table = run(machine, "esxcli network nic pauseParams list")
    assert [line.split()[:4] for line in table.splitlines()[3:]] == [
        ["vmnic3", "true", "false", "false"],
        ["vmnic4", "true", "false", "false"],
    ]
    machine.reboot()
    assert machine.pause_of(machine.nics["vmnic4"]).rx, "global pause is on again after a boot"


def test_pauses_count_in_the_mode_that_runs() -> None:
    machine = host()
    with_pfc, without = machine.nics["vmnic3"], machine.nics["vmnic4"]
    assert machine.take_pause(with_pfc, "rx", 7, 3) == 7
    assert machine.take_pause(with_pfc, "rx", 7, 4) == 0
    assert machine.take_pause(with_pfc, "rx", 5, None) == 0
    assert machine.take_pause(without, "rx", 9, None) == 9
    assert machine.take_pause(without, "rx", 9, 3) == 0
    pauses = "vsish -e cat /net/pNics/{}/stats | grep -E 'rx.*pause' | grep -v duration"
    assert run(machine, pauses.format("vmnic3")) == "rx_prio3_pause: 7\n"
    assert run(machine, pauses.format("vmnic4")) == "rx_global_pause: 9\nrx_global_pause_transition: 4\n"
    assert "rxPauseCtrlPhy: 5" in run(machine, "vsish -e cat /net/pNics/vmnic3/stats"), "they were on the wire"


def test_a_switch_without_pfc_leaves_the_options_in_force_and_dcbx_off_ignores_the_switch() -> None:
    offers = {"dcbx": "ieee", "pfc": 8}
    nics = [{**SITE["nics"][1], "peer": peer} for peer in (offers,)]  # type: ignore[index]
    machine = host({"nics": nics, "modules": {"nmlx5_core": "dcbx=0"}})
    status = run(machine, "esxcli network nic dcb status get -n vmnic3")
    assert "Mode: Unknown" in status
    assert "PFC Enabled: false" in status
    cee = host({"nics": [{**nics[0], "peer": {"dcbx": "cee"}}], "modules": {"nmlx5_core": "pfctx=8 pfcrx=8"}})
    status = run(cee, "esxcli network nic dcb status get -n vmnic3")
    assert "Mode: CEE Mode" in status
    assert "PFC Configuration: 0 0 0 1 0 0 0 0" in status


def test_without_its_virtual_function_a_vm_does_not_start() -> None:
    machine = host()
    run(machine, 'esxcli system module parameters set -m nmlx5_core -p "pfctx=0x08"')
    machine.reboot()
    assert run(machine, "esxcli vm process list") == ""
    assert "vm1: no virtual function 0 on vmnic3" in run(machine, "cat /var/log/vmkernel.log")
    assert "There is no SRIOV Nic" in refuse(machine, "esxcli network sriovnic vf list -n vmnic3")


def test_the_file_of_a_vm_has_the_address_of_its_function() -> None:
    machine = host()
    path = run(machine, "esxcli vm process list | grep 'vm1.vmx' | awk '{print $3}'").strip()
    mac = machine.vms[0].vfs[0].mac
    assert mac.startswith("00:50:56:")
    assert f'pciPassthru0.MACAddress = "{mac}"' in run(machine, f"cat {path}")


def test_a_passed_through_card_leaves_the_lists() -> None:
    machine = host({**SITE, "vms": [], "passthrough": {"0000:18:00.1": True}})
    assert "vmnic4" not in run(machine, "esxcli network nic list; esxcfg-nics -l; vsish -e ls /net/pNics")
    assert "0000:18:00.1 15b3:1015 15b3:0001 255/   /     A P pciPassthru  vmnic4" in run(machine, "lspci -p")


def test_an_mtu_of_a_switch_is_that_of_its_uplinks() -> None:
    machine = host()
    run(machine, "esxcli network vswitch standard set -v vSwitch1 -m 9000")
    assert "MTU: 9000" in run(machine, "esxcli network vswitch standard list")
    assert run(machine, "esxcfg-nics -l | grep nmlx5 | awk '{print $8}'") == "9000\n9000\n"


@pytest.mark.parametrize("release", RELEASES)
def test_releases_differ(release: str) -> None:
    machine = host(release=release)
    number = float(release[:3])
    has_dcb = type_in(machine, "esxcli network nic dcb status get -n vmnic3")[2] == 0
    has_list = type_in(machine, "esxcli hardware pci pcipassthru list")[2] == 0
    has_json = type_in(machine, "esxcli --formatter=json network nic list")[2] == 0
    assert has_dcb is has_list is has_json is (number >= 7)
    assert ("Backing DPUId" in run(machine, "esxcli network nic get -n vmnic3")) is (number >= 8)
    functions = run(machine, "esxcli network sriovnic vf list -n vmnic3")
    assert ("0000:18:00.2" in functions) is (release in ("8.0U3", "9.0"))
    assert ("00000:024:00.2" in functions) is (release not in ("8.0U3", "9.0"))
    vm = machine.vms[0]
    assert str(vm.cartel if release == "9.0" else vm.world) in functions


def test_a_host_without_dcbx_of_its_own_does_not_follow_the_switch() -> None:
    machine = host(release="6.7")
    assert not machine.dcb_of(machine.nics["vmnic3"]).is_on


def test_every_format_has_the_same_values() -> None:
    machine = host()
    as_json = json.loads(run(machine, "esxcli --formatter=json network nic list"))
    as_csv = list(csv.DictReader(run(machine, "esxcli --formatter=csv network nic list").splitlines()))
    tree = ElementTree.fromstring(run(machine, "esxcli --formatter=xml network nic list"))  # noqa: S314 - our own text
    spaces = {"v": NAMESPACE}
    names = [
        field.findtext("v:string", namespaces=spaces) for field in tree.iterfind(".//v:field[@name='Name']", spaces)
    ]
    keyvalue = run(machine, "esxcli --formatter=keyvalue network nic list")
    assert (
        [row["Name"] for row in as_json] == [row["Name"] for row in as_csv] == names == ["vmnic0", "vmnic3", "vmnic4"]
    )
    assert as_json[1]["Speed"] == int(as_csv[1]["Speed"]) == 10000
    assert "NIC[1].Speed.integer=10000" in keyvalue


def test_nested_fields_are_in_all_formats_but_csv() -> None:
    machine = host()
    command = "esxcli --formatter={} network nic get -n vmnic3"
    assert json.loads(run(machine, command.format("json")))["DriverInfo"]["Driver"] == "nmlx5_core"
    assert "NicDetails.DriverInfo.Driver.string=nmlx5_core" in run(machine, command.format("keyvalue"))
    assert "DriverInfo" not in run(machine, command.format("csv"))


def test_read_only_refuses_every_change() -> None:
    machine = host()
    machine.lockdown = "read-only"
    before = dict(machine.stored)
    changes = ["reboot", "auto-backup.sh", 'esxcfg-module -s "ecn=1" nmlx5_core']
    changes += [f"esxcli {command.words}" for command in COMMANDS.values() if command.changes]
    for line in changes:
        assert "Operation not permitted" in refuse(machine, line)
    assert (machine.stored, machine.boots) == (before, 1)
    run(machine, "esxcli network nic list")


def test_the_switch_port_of_a_card() -> None:
    machine = host()
    hint = run(machine, "vim-cmd hostsvc/net/query_networkhint --pnic-name=vmnic3")
    assert 'devId = "nexus"' in hint
    assert 'portId = "Ethernet1/2/1"' in hint
    assert "devId" not in run(machine, "vim-cmd hostsvc/net/query_networkhint --pnic-name=vmnic4")
