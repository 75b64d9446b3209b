"""Output of ESXi hosts, read from real ones and from the emulator, whose state is the expected value."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.switchlab.esxi.support import FIXTURES, SITE, host, run

from railbed.errors import ParseError, UsageError
from railbed.parsing.esxi.cards import parse_cards, parse_details, parse_statistics
from railbed.parsing.esxi.functions import (
    function_of,
    hexadecimal_address,
    owner_of,
    parse_devices,
    parse_functions,
    parse_passthrough,
    parse_rdma_devices,
    parse_rdma_protocols,
    parse_rdma_vmknics,
    parse_vms,
)
from railbed.parsing.esxi.host import parse_reboot_required, parse_switches, parse_version
from railbed.parsing.esxi.modules import merge_options, option_values, parse_modules
from railbed.parsing.esxi.pauses import (
    REFUSED,
    parse_class_pauses,
    parse_counters,
    parse_dcb,
    parse_pauses,
)
from switchlab.esxi.model.release import RELEASES

real = pytest.mark.skipif(not FIXTURES.is_dir(), reason="no ../shared/fixtures here")
shared = pytest.mark.shared


def captured(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


# Real hosts


@real
@shared
def test_real_lists_of_cards() -> None:
    cards = {card.name: card for card in parse_cards(captured("esxcfg-nics_l__cx4lx"))}
    assert list(cards) == ["vmnic1", "vmnic2", "vmnic3", "vmnic4"]
    assert (cards["vmnic2"].pci, cards["vmnic2"].mbps, cards["vmnic2"].mac) == (
        "0000:18:00.1",
        25000,
        "0c:42:a1:24:ad:1f",
    )
    assert cards["vmnic1"].description.endswith("(MCX4421A-ACQ)")
    assert (cards["vmnic4"].up, cards["vmnic4"].mbps, cards["vmnic4"].admin_up) == (False, None, None)
    assert len(parse_cards(captured("esxcfg-nics_l__icen_bnxtnet"))) == 16
    table = {card.name: card for card in parse_cards(captured("esxcli_network_nic_list__icen"))}
    assert (table["vmnic2"].driver, table["vmnic2"].mbps, table["vmnic2"].mtu) == ("icen", 100000, 1500)
    assert (table["vmnic1"].up, table["vmnic1"].mbps, table["vmnic1"].admin_up) == (False, None, True)
    assert table["vmnic3"].description == "Intel(R) Ethernet Controller E810-C for QSFP"


@real
@shared
def test_real_details_of_a_card() -> None:
    new = parse_details(captured("esxcli_network_nic_get__i40en_8.0"))
    assert (new.name, new.driver, new.firmware) == ("vmnic0", "i40en", "8.15 0x80009621 1.2829.0")
    assert (new.driver_version, new.up, new.cable) == ("2.5.0.28", True, "DA")
    assert (new.pause_rx, new.pause_tx, new.pause_auto) == (False, False, False)
    old = parse_details(captured("esxcli_network_nic_get__nmlx5_core_6.x"))
    assert (old.name, old.driver, old.firmware, old.driver_version) == (
        "vmnic5",
        "nmlx5_core",
        "12.20.1010",
        "4.15.10.3",
    )
    assert old.link_modes[0] == "10000baseT/Full"
    assert len(old.link_modes) == 7


@real
@shared
def test_real_statistics() -> None:
    counters = parse_statistics(captured("esxcli_network_nic_stats_get__vmnic9"))
    assert len(counters) == 23
    assert (counters["Bytes received"], counters["Broadcast packets sent"]) == (5271156, 98241)
    assert not [label for label in counters if "ause" in label]


@real
@shared
def test_real_pauses() -> None:
    pauses = parse_pauses(captured("esxcli_network_nic_pauseParams_list__nmlx5_global_pause"))
    assert {name: (pause.rx, pause.tx, pause.auto) for name, pause in pauses.items()} == {
        "vmnic1": (True, True, False),
        "vmnic2": (True, True, False),
    }
    assert REFUSED in captured("pauseParams_set__refused_pfc_on")
    assert "--rx=<bool>" in captured("esxcli_network_nic_pauseParams_set__options")


@real
@shared
def test_the_real_state_of_pfc() -> None:
    excerpts = [
        part.partition("\n") for part in captured("esxcli_network_nic_dcb_status_get__site_excerpts").split("\n\n")
    ]
    states = {name.strip(":"): parse_dcb(text) for name, _, text in excerpts}
    assert (states["vmnic3"].mode, states["vmnic3"].pfc, states["vmnic3"].priorities) == ("ieee", True, (3,))
    assert states["vmnic3"].sent == (0, 0, 0, 1, 0, 0, 0, 0)
    assert (states["vmnic5"].mode, states["vmnic5"].pfc, states["vmnic5"].priorities) == ("cee", False, ())
    assert states["vmnic6"].sent is None, "it was not reported"


@real
@shared
def test_real_counters() -> None:
    assert parse_counters(captured("vsish_pnic_stats_pause__vmnic3_pfc_on"))["rx_prio3_pause"] == 0
    with_global = parse_counters(captured("vsish_pnic_stats_pause__vmnic5_global_pause"))
    assert with_global == {
        "rxPauseCtrlPhy": 133704835,
        "rx_global_pause": 133704872,
        "rx_global_pause_transition": 66852436,
    }
    card = parse_counters(captured("vsish_pe_get_pnic_stats__icen"))
    assert (card["rxbytes"], card["inttxdrp"], len(card)) == (56926552261, 0, 28)
    function = parse_counters(captured("vsish_pe_get_sriov_vf_stats"))
    assert (function["rxUnicastBytes"], function["rxBroadcastPkts"], len(function)) == (15180, 44, 24)
    classes = parse_class_pauses(captured("localcli_privstats_get__icen_pfc"))
    assert list(classes) == list(range(8))
    assert (classes[3].rx_off, classes[3].tx_off) == (0, 0)


@real
@shared
def test_real_virtual_functions() -> None:
    old = parse_functions(captured("esxcli_network_sriovnic_vf_list__decimal_pci"))
    assert [(function.number, function.active, function.pci, function.owner) for function in old] == [
        (number, False, f"0000:65:00.{number + 1}", None) for number in range(4)
    ]
    vms = parse_vms(captured("esxcli_vm_process_list"))
    assert [(vm.name, vm.world, vm.cartel) for vm in vms] == [
        ("FR-9-Sophia", 2104268, 2104267),
        ("FR-cli7-monica", 2381189, 2381188),
    ]
    assert vms[0].config_file.endswith("/zoe/zoe.vmx")
    for name, owners in (
        ("esxi8_world_id", [None, "FR-9-Sophia", None, "FR-cli7-monica", None, None, None, "FR-cli7-monica"]),
        ("esxi9_cartel_id", ["FR-9-Sophia", "FR-9-Sophia", None, "FR-cli7-monica", None, "FR-cli7-monica", None]),
    ):
        functions = parse_functions(captured(f"esxcli_network_sriovnic_vf_list__{name}"))
        owning = [owner_of(function, vms) for function in functions]
        assert [vm.name if vm else None for vm in owning][: len(owners)] == owners
        assert functions[1].active
    assert parse_functions(captured("esxcli_network_sriovnic_vf_list__not_sriov")) == []


@real
@shared
def test_real_devices() -> None:
    assert parse_passthrough(captured("esxcli_hardware_pci_pcipassthru_list__esxi7")) == {
        "0000:02:00.0": True,
        "0000:18:00.0": False,
    }
    passed = parse_devices(captured("lspci_p__passthrough"))
    assert [(device.name, device.passed_through, device.driver) for device in passed] == [
        ("vmnic8", True, None),
        ("vmnic9", True, None),
        ("vmnic10", False, "i40en"),
        ("PF_0.94.1_VF_0", True, None),
    ]
    assert len(parse_devices(captured("lspci_p__icen_bnxtnet"))) == 16
    numbered = parse_devices(captured("lspci_n__vf_names"))
    assert (numbered[-1].pci, numbered[-1].id, numbered[-1].name) == ("0000:cb:00.1", "8086:154c", "PF_0.202.1_VF_1")
    assert numbered[-1].passed_through is None
    assert function_of("PF_0.202.1_VF_1") == ("0000:ca:00.1", 1)
    assert function_of("vmnic3") is None


@real
@shared
def test_real_rdma_devices() -> None:
    devices = parse_rdma_devices(captured("esxcli_rdma_device_list__nenic"))
    first = devices[0]
    assert (first.name, first.driver, first.active, first.mtu, first.gbps, first.uplink) == (
        *("vmrdma0", "nenic", True, 4096, 50, "vmnic1"),
    )
    assert parse_rdma_protocols(captured("esxcli_rdma_device_protocol_list__nenic"))["vmrdma1"] == {
        "RoCE v1": False,
        "RoCE v2": True,
        "iWARP": False,
    }
    assert parse_rdma_vmknics(captured("esxcli_rdma_device_vmknic_list")) == {"vmrdma0": "vmk1", "vmrdma1": "vmk2"}


@real
@shared
def test_real_switches() -> None:
    standard = parse_switches(captured("esxcli_network_vswitch_standard_list"))
    assert [(switch.name, switch.mtu, switch.uplinks) for switch in standard] == [
        ("defvSwitch", 1500, ("vmnic2",)),
        ("vSwitch0", 1500, ("vmnic0",)),
    ]
    assert standard[1].port_groups == ("defmng", "VM Network", "Management Network")
    both = parse_switches(captured("esxcfg-vswitch_l"))
    assert [(switch.name, switch.mtu, switch.uplinks, switch.distributed) for switch in both] == [
        ("vSwitch0", 1500, ("vmnic0",), False),
        ("DSwitch_063LongName", 9000, ("vmnic3",), True),
    ]
    assert both[0].port_groups == ("ATmng", "VM Network", "Management Network")


@real
@shared
def test_the_rest_of_real_output() -> None:
    modules = parse_modules(captured("esxcfg-module_g__nmlx5"))
    assert modules["nmlx5_core"].options == "pfctx=0x08 pfcrx=0x08 trust_state=2 max_vfs=4,4"
    assert (modules["nmlx5_rdma"].options, modules["nmlx5_rdma"].enabled) == ("dscp_force=26", True)
    version = parse_version(captured("esxcli_system_version_get__7.0.2"))
    assert (version.numbers, version.build, version.update, version.patch) == ((7, 0, 2), "17867351", None, None)
    assert parse_reboot_required(captured("esxcli_software_vib_install__reboot_required")) is True


# The emulator, on every machine


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_is_read(release: str) -> None:
    machine = host(release=release)
    version = parse_version(run(machine, "esxcli system version get"))
    assert version.version == RELEASES[release].version
    assert version.update == RELEASES[release].update
    assert [card.name for card in parse_cards(run(machine, "esxcli network nic list"))] == list(machine.nics)
    assert parse_cards(run(machine, "esxcfg-nics -l"))[1].mac == machine.nics["vmnic3"].mac
    details = parse_details(run(machine, "esxcli network nic get -n vmnic4"))
    assert (details.firmware, details.pause_rx) == (machine.nics["vmnic4"].firmware, True)
    functions = parse_functions(run(machine, "esxcli network sriovnic vf list -n vmnic4"))
    assert [function.pci for function in functions] == [
        "0000:18:00.6",
        "0000:18:00.7",
        "0000:18:01.0",
        "0000:18:01.1",
    ]
    vms = parse_vms(run(machine, "esxcli vm process list"))
    owners = [owner_of(function, vms) for function in functions]
    assert [vm and vm.name for vm in owners] == [None, "vm2", None, None]
    devices = {device.name: device for device in parse_devices(run(machine, "lspci -p"))}
    assert (devices["vmnic3"].driver, devices["PF_0.24.1_VF_3"].passed_through) == ("nmlx5_core", True)
    assert parse_switches(run(machine, "esxcfg-vswitch -l"))[0].uplinks == ("vmnic3", "vmnic4")


def test_the_whole_status_of_dcb_is_read() -> None:
    machine = host()
    machine.take_pause(machine.nics["vmnic3"], "tx", 5, 3)
    state = parse_dcb(run(machine, "esxcli network nic dcb status get -n vmnic3"))
    assert (state.mode, state.pfc, state.priorities) == ("ieee", True, (3,))
    assert state.sent == (0, 0, 0, 5, 0, 0, 0, 0)
    none = parse_dcb(run(machine, "esxcli network nic dcb status get -n vmnic4"))
    assert (none.mode, none.pfc, none.priorities) == (None, False, ())


def test_an_empty_list_of_vms_is_no_mistake() -> None:
    assert parse_vms(run(host({**SITE, "vms": []}), "esxcli vm process list")) == []


def test_prompts_and_warnings_around_an_output_are_left_out() -> None:
    table = run(host(), "esxcli network nic list")
    noisy = f"[root@esx1:~] esxcli network nic list\n{table}\n"
    assert len(parse_cards(noisy)) == 3


READERS = (
    parse_cards,
    parse_class_pauses,
    parse_counters,
    parse_dcb,
    parse_details,
    parse_devices,
    parse_functions,
    parse_modules,
    parse_passthrough,
    parse_pauses,
    parse_rdma_devices,
    parse_rdma_protocols,
    parse_rdma_vmknics,
    parse_reboot_required,
    parse_statistics,
    parse_switches,
    parse_version,
    parse_vms,
)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", ["-sh: esxcli: not found\n", "Error: Unknown command or namespace network nic x\n"])
def test_something_else_is_refused(reader: object, text: str) -> None:
    assert callable(reader)
    with pytest.raises(ParseError):
        reader(text)


@given(st.sampled_from(READERS), st.text())
def test_any_text_is_read_or_refused(reader: object, text: str) -> None:
    assert callable(reader)
    with contextlib.suppress(ParseError):
        reader(text)


@pytest.mark.parametrize("text", ["00000:256:00.1", "0000:zz:00.1", "", "0000:18:00.9"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        hexadecimal_address(text)


# Merging parameters

NAMES = st.sampled_from(["pfctx", "pfcrx", "trust_state", "dcbx", "ecn", "RSS", "vendor_key"])
VALUES = st.sampled_from(["0", "1", "2", "0x08", "8", "4,4", "a.b"])
STORED = st.lists(st.tuples(NAMES | st.just("max_vfs"), VALUES).map("=".join) | st.just("bare"), max_size=8).map(
    " ".join
)
CHANGES = st.dictionaries(NAMES, VALUES, max_size=4)


@given(STORED, CHANGES)
def test_what_is_not_changed_remains_in_its_order(stored: str, changes: dict[str, str]) -> None:
    merged = merge_options(stored, changes)
    rest = [item for item in stored.split() if item.partition("=")[0] not in changes]
    assert [item for item in merged.split() if item.partition("=")[0] not in changes] == rest


@given(STORED, CHANGES)
def test_a_change_is_there_once_and_merging_again_changes_nothing(stored: str, changes: dict[str, str]) -> None:
    merged = merge_options(stored, changes)
    names = [item.partition("=")[0] for item in merged.split()]
    assert all(names.count(name) == 1 for name in changes)
    assert {name: option_values(merged)[name] for name in changes} == changes
    assert merge_options(merged, changes) == merged


@given(STORED)
def test_without_a_change_nothing_is_lost(stored: str) -> None:
    assert merge_options(stored, {}).split() == stored.split()


@pytest.mark.parametrize(
    ("stored", "changes", "merged"),
    [
        ("", {"pfctx": "0x08", "pfcrx": "0x08"}, "pfctx=0x08 pfcrx=0x08"),
        ("dcbx=1 max_vfs=4,4", {"pfctx": "0x08", "dcbx": "0"}, "dcbx=0 max_vfs=4,4 pfctx=0x08"),
        ("pfctx=0 a=1 pfctx=1", {"pfctx": "8"}, "pfctx=8 a=1"),
        ("max_vfs=4,4", {"max_vfs": "8,4"}, "max_vfs=8,4"),
        ("max_vfs=4,4", {"max_vfs": "4,4,2"}, "max_vfs=4,4,2"),
    ],
)
def test_merging(stored: str, changes: dict[str, str], merged: str) -> None:
    assert merge_options(stored, changes) == merged


@pytest.mark.parametrize(
    ("stored", "changes"),
    [
        ("max_vfs=4,4", {"max_vfs": "4"}),
        ("max_vfs=4,4", {"max_vfs": "0,4"}),
        ("max_vfs=4,4", {"max_vfs": "x"}),
        ("a=1", {"pfctx": ""}),
        ("a=1", {"pfctx": "8 max_vfs=0"}),
        ("a=1", {"pfctx": "8'"}),
        ("a=1", {"p c": "8"}),
        ("a=1", {"pfctx": "8\n"}),
    ],
)
def test_a_merge_that_would_lose_something_is_refused(stored: str, changes: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        merge_options(stored, changes)


def test_a_merged_string_runs_after_a_reboot_and_the_vms_start() -> None:
    machine = host()
    stored = parse_modules(run(machine, "esxcfg-module -g nmlx5_core"))["nmlx5_core"].options
    merged = merge_options(stored, {"pfctx": "0x08", "pfcrx": "0x08", "trust_state": "2"})
    run(machine, f'esxcli system module parameters set -m nmlx5_core -p "{merged}"')
    machine.reboot()
    state = parse_dcb(run(machine, "esxcli network nic dcb status get -n vmnic4"))
    assert state.priorities == (3,)
    assert len(parse_vms(run(machine, "esxcli vm process list"))) == 2


@real
@shared
def test_every_real_output_is_read_here() -> None:
    source = Path(__file__).read_text()
    unread = [
        path.stem
        for path in FIXTURES.glob("*.txt")
        if path.stem not in source and not path.stem.startswith("esxcli_network_sriovnic_vf")
    ]
    assert unread == []
