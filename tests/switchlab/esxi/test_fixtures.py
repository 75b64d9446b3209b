"""The emulator compared with what real hosts print, for hosts that have the same cards, VMs and settings.

Lines are compared without the white space at their end, which the sources of the fixtures have trimmed. Where a source
has moved columns, which the README of the fixtures says, words are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switchlab.esxi.model.host import Host
from tests.switchlab.esxi.support import FIXTURES, host, run, type_in

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not FIXTURES.is_dir(), reason="no ../shared/fixtures here")]
Printed = tuple[list[str], list[str]]
"""What a real host printed, and what the emulator prints."""
Comparison = Callable[[str], Printed]
COMPARISONS: dict[str, Comparison] = {}


def compares(name: str) -> Callable[[Comparison], Comparison]:
    """Register the comparison for one fixture."""

    def register(comparison: Comparison) -> Comparison:
        COMPARISONS[name] = comparison
        return comparison

    return register


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def rows(text: str) -> list[str]:
    """Return words without the dashed rule, whose lengths the source has changed."""
    return [line for line in words(text) if set(line) > {"-", " "}]


def masked(text: str) -> list[str]:
    """Return lines without the length of the rule under the last column."""
    return [re.sub(r"-+$", "-", line) for line in lines(text)]


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_the_emulator_prints_what_a_real_host_prints(path: Path) -> None:
    real, emulated = COMPARISONS[path.stem](path.read_text())
    assert emulated == real


# Cards


def cards(table: str, *, speed_unit: str = "") -> list[dict[str, object]]:
    """Return the cards that a table of `esxcfg-nics -l` or `esxcli network nic list` lists."""
    listed = []
    pattern = r"(vmnic\d+) +(\S+) +(\S+) +(?:Up +)?(Up|Down) +(\d+)" + speed_unit + r" +\w+ +(\S+) +(\d+) +(.*)"
    for name, pci, driver, link, mbps, mac, mtu, description in re.findall(pattern, table):
        listed.append(
            {
                "name": name,
                "pci": pci,
                "driver": driver,
                "up": link == "Up",
                "mbps": int(mbps),
                "mac": mac,
                "mtu": int(mtu),
                "description": description,
            }
        )
    return listed


@compares("esxcfg-nics_l__cx4lx")
@compares("esxcfg-nics_l__icen_bnxtnet")
def _esxcfg_nics(text: str) -> Printed:
    machine = host({"nics": cards(text, speed_unit="Mbps")})
    return lines(text), lines(run(machine, "esxcfg-nics -l"))


@compares("esxcli_network_nic_list__icen")
def _nic_list(text: str) -> Printed:
    machine = host({"nics": cards(text)})
    return masked(text), masked(run(machine, "esxcli network nic list"))


@compares("esxcli_network_nic_get__i40en_8.0")
def _nic_get_i40en(text: str) -> Printed:
    card = {
        "name": "vmnic0",
        "pci": "0000:4b:00.0",
        "driver": "i40en",
        "mac": "00:00:00:00:00:00",
        "firmware": "8.15 0x80009621 1.2829.0",
        "driver_version": "2.5.0.28",
        "link_modes": ["Auto", "40000BaseCR4/Full"],
    }
    return lines(text), lines(run(host({"nics": [card]}, "8.0"), "esxcli network nic get -n vmnic0"))


@compares("esxcli_network_nic_get__nmlx5_core_6.x")
def _nic_get_nmlx5(text: str) -> Printed:
    modes = re.search(r"Link Modes: (.*)", text)
    assert modes
    card = {
        "name": "vmnic5",
        "pci": "0000:82:00.1",
        "mac": "00:00:00:00:00:00",
        "firmware": "12.20.1010",
        "driver_version": "4.15.10.3",
        "link_modes": modes[1].split(", "),
        "wakeon": "MagicPacket(tm)",
    }
    machine = host({"nics": [card]}, "6.7")
    machine.nics["vmnic5"].pause.rx = machine.nics["vmnic5"].pause.tx = False
    return lines(text), lines(run(machine, "esxcli network nic get -n vmnic5"))


@compares("esxcli_network_nic_stats_get__vmnic9")
def _nic_stats(text: str) -> Printed:
    machine = host({"nics": [card("vmnic9")]})
    counters = machine.nics["vmnic9"].counters
    values = {"rxbytes": 5271156, "txbytes": 39259722, "rxmltcast": 60588, "txmltcast": 60588, "txbrdcast": 98241}
    for name, value in values.items():
        counters.add(name, value)
    return lines(text), lines(run(machine, "esxcli network nic stats get -n vmnic9"))


def card(name: str, **options: object) -> dict[str, object]:
    return {"name": name, "pci": "0000:18:00.0", "mac": "00:00:00:00:00:00", **options}


# Pause and PFC


@compares("esxcli_network_nic_pauseParams_list__nmlx5_global_pause")
def _pause_list(text: str) -> Printed:
    machine = host({"nics": [card("vmnic1"), card("vmnic2", pci="0000:18:00.1")]})
    return lines(text), lines(run(machine, "esxcli network nic pauseParams list"))


@compares("esxcli_network_nic_pauseParams_set__options")
def _pause_options(text: str) -> Printed:
    shown = run(host(), "esxcli network nic pauseParams set --help | grep '<'")
    return words(text), words(shown)


@compares("pauseParams_set__refused_pfc_on")
def _pause_refused(text: str) -> Printed:
    command, refusal, log = text.splitlines()
    machine = host()
    out, _, status = type_in(machine, command.removeprefix("$ "))
    assert status != 0
    assert log.removeprefix("vmkernel.log: ") in run(machine, "tail -n 1 /var/log/vmkernel.log")
    return [refusal], lines(out)


@compares("esxcli_network_nic_dcb_status_get__site_excerpts")
def _dcb(text: str) -> Printed:
    """The fixture has four lines of each card; ESXi indents the lines."""
    peers = {"vmnic3": {"dcbx": "ieee", "pfc": 8}, "vmnic5": {"dcbx": "cee"}, "vmnic6": {"dcbx": "cee"}}
    machine = host(
        {"nics": [card(name, pci=f"0000:18:00.{at}", peer=peer) for at, (name, peer) in enumerate(peers.items())]}
    )
    machine.nics["vmnic3"].counters.add("pfc_sent_3")
    emulated = []
    for name in peers:
        labels = "Mode|PFC Enabled|PFC Configuration" + ("|Sent" if name == "vmnic3" else "")
        emulated += [
            f"{name}:",
            *words(run(machine, f"esxcli network nic dcb status get -n {name} | grep -E '{labels}'")),
        ]
    return words(text), emulated


@compares("vsish_pnic_stats_pause__vmnic3_pfc_on")
def _vsish_pfc(text: str) -> Printed:
    return _vsish(text, host(), "vmnic3")


@compares("vsish_pnic_stats_pause__vmnic5_global_pause")
def _vsish_global(text: str) -> Printed:
    machine = host({"nics": [card("vmnic5")]})
    for name, value in re.findall(r"(\w+): (\d+)", text):
        machine.nics["vmnic5"].counters.add(name, int(value))
    return _vsish(text, machine, "vmnic5")


def _vsish(text: str, machine: Host, nic: str) -> Printed:
    """The fixtures have some of the lines."""
    emulated = lines(run(machine, f"vsish -e cat /net/pNics/{nic}/stats | grep -i pause"))
    return lines(text), [line for line in emulated if line in lines(text)]


@compares("localcli_privstats_get__icen_pfc")
def _privstats(text: str) -> Printed:
    machine = host({"nics": [card("vmnic2", driver="icen")]})
    command = "localcli --plugin-dir /usr/lib/vmware/esxcli/int networkinternal nic privstats get -n vmnic2"
    return lines(text), lines(run(machine, command))


@compares("vsish_pe_get_pnic_stats__icen")
def _vsish_python(text: str) -> Printed:
    hardware = re.search(r'"hw" : "(.*)",\n}', text, re.DOTALL)
    assert hardware
    machine = host({"nics": [card("vmnic2", driver="icen", hardware_text=hardware[1])]})
    for name, value in re.findall(r'"(\w+)" : (\d+)', text):
        machine.nics["vmnic2"].counters.add(name, int(value))
    return lines(text), lines(run(machine, "vsish -pe get /net/pNics/vmnic2/stats"))


# Virtual functions and VMs


@compares("vsish_pe_get_sriov_vf_stats")
def _vsish_vf(text: str) -> Printed:
    machine = host()
    for name, value in re.findall(r'"(\w+)" : (\d+)', text):
        machine.nics["vmnic3"].counters.add(f"vf0.{name}", int(value))
    return lines(text), lines(run(machine, "vsish -pe get /net/sriov/vmnic3/vfs/0/stats"))


@compares("esxcli_network_sriovnic_vf_list__decimal_pci")
def _vf_decimal(text: str) -> Printed:
    cards = [card("vmnic2", pci="0000:65:00.0")]
    machine = host({"nics": cards, "modules": {"nmlx5_core": "max_vfs=4"}}, "8.0")
    return lines(text), lines(run(machine, "esxcli network sriovnic vf list -n vmnic2"))


def owned(release: str, owners: dict[str, tuple[int, ...]]) -> Host:
    """Return a host with eight virtual functions; the VMs have some of them."""
    vms = [
        {"name": name, "vfs": [{"nic": "vmnic2", "number": number} for number in numbers]}
        for name, numbers in owners.items()
    ]
    cards = [card("vmnic2", pci="0000:02:00.0", vf_first="0000:03:00.0")]
    return host({"nics": cards, "vms": vms, "modules": {"nmlx5_core": "max_vfs=8"}}, release)


@compares("esxcli_network_sriovnic_vf_list__esxi8_world_id")
def _vf_world(text: str) -> Printed:
    machine = owned("8.0U3", {"2103475": (0, 5), "2104268": (1,), "2381189": (3, 7)})
    for vm in machine.vms:
        vm.world = int(vm.name)
    return rows(text), rows(run(machine, "esxcli network sriovnic vf list -n vmnic2"))


@compares("esxcli_network_sriovnic_vf_list__esxi9_cartel_id")
def _vf_cartel(text: str) -> Printed:
    machine = owned("9.0", {"2104267": (0, 1), "2381188": (3, 5, 7)})
    for vm in machine.vms:
        vm.cartel = int(vm.name)
    return rows(text), rows(run(machine, "esxcli network sriovnic vf list -n vmnic2"))


@compares("esxcli_network_sriovnic_vf_list__not_sriov")
def _no_vfs(text: str) -> Printed:
    machine = host({"nics": [card("vmnic6")]})
    return lines(text), lines(type_in(machine, "esxcli network sriovnic vf list -n vmnic6")[0])


@compares("esxcli_vm_process_list")
def _vms(text: str) -> Printed:
    blocks = [dict(re.findall(r"^   ([\w ]+): (.*)$", block, re.MULTILINE)) for block in text.split("\n\n")]
    vms = [{"name": vm["Display Name"], "uuid": vm["UUID"], "path": vm["Config File"]} for vm in blocks]
    machine = host({"vms": vms})
    for vm, block in zip(machine.vms, blocks, strict=True):
        vm.world, vm.cartel = int(block["World ID"]), int(block["VMX Cartel ID"])
    return lines(text), lines(run(machine, "esxcli vm process list"))


@compares("esxcli_hardware_pci_pcipassthru_list__esxi7")
def _passthrough(text: str) -> Printed:
    machine = host({"passthrough": {"0000:02:00.0": True, "0000:18:00.0": False}})
    return words(text), words(run(machine, "esxcli hardware pci pcipassthru list"))


def listed_cards(text: str) -> Iterator[dict[str, object]]:
    """Yield the cards that `lspci -p` lists."""
    pattern = r"(\S+) (\S+) (\S+) 255/   /     (\S) [PV] (\w+) +(vmnic\d+)"
    for pci, device_id, subsystem, irq, driver, name in re.findall(pattern, text):
        known = driver if driver != "pciPassthru" else "i40en"
        identity = {"pci": pci, "device_id": device_id, "subsystem": subsystem, "irq": irq}
        yield card(name, driver=known, **identity)


@compares("lspci_p__icen_bnxtnet")
def _lspci_owners(text: str) -> Printed:
    return lines(text), lines(run(host({"nics": list(listed_cards(text))}), "lspci -p"))


@compares("lspci_p__passthrough")
def _lspci_passed(text: str) -> Printed:
    """The virtual function is that of another card."""
    vf_card = card(
        "vmnic2",
        pci="0000:5e:00.1",
        driver="icen",
        device_id="8086:1593",
        subsystem="8086:0005",
        vf_first="0000:5e:09.0",
    )
    passed = {"0000:af:00.0": True, "0000:af:00.1": True}
    nics = [*listed_cards(text), vf_card]
    machine = host({"nics": nics, "passthrough": passed, "modules": {"icen": "max_vfs=1"}})
    shown = words(run(machine, "lspci -p"))
    return sorted(words(text)), sorted(line for line in shown if "vmnic2" not in line)


@compares("lspci_n__vf_names")
def _lspci_numbers(text: str) -> Printed:
    pairs = re.findall(r"(\S+) Class 0200: (\S+) \[(vmnic\d+)\]", text)
    drivers = {"8086:1572": "i40en", "8086:1593": "icen", "8086:10fb": "ixgben", "8086:1521": "igbn"}
    first = {"vmnic10": "0000:ca:02.0", "vmnic11": "0000:cb:00.0"}
    nics = [
        card(
            name,
            pci=pci,
            device_id=device_id,
            driver=drivers.get(device_id, "bnxtnet"),
            vf_first=first.get(name, ""),
        )
        for pci, device_id, name in pairs
    ]
    machine = host({"nics": nics, "modules": {"i40en": "max_vfs=2,2"}})
    return lines(text), lines(run(machine, "lspci -n"))


# RDMA, switches, modules, versions

VIC = "Cisco UCS VIC 15XXX (A0)"


def ucs() -> Host:
    nics = [
        card(f"vmnic{at}", pci=f"0000:1b:00.{at}", driver="nenic", mbps=50000, description=VIC, has_rdma=True)
        for at in (1, 2)
    ]
    return host({"nics": nics, "vmknics": {"vmrdma0": "vmk1", "vmrdma1": "vmk2"}})


@compares("esxcli_rdma_device_list__nenic")
def _rdma_devices(text: str) -> Printed:
    return rows(text), rows(run(ucs(), "esxcli rdma device list"))


@compares("esxcli_rdma_device_vmknic_list")
def _rdma_vmknics(text: str) -> Printed:
    return rows(text), rows(run(ucs(), "esxcli rdma device vmknic list"))


@compares("esxcli_rdma_device_protocol_list__nenic")
def _rdma_protocols(text: str) -> Printed:
    return rows(text), rows(run(ucs(), "esxcli rdma device protocol list"))


@compares("esxcli_network_vswitch_standard_list")
def _vswitches(text: str) -> Printed:
    switches = [
        switch("defvSwitch", ("defNetwork", "defvmnic2"), uplinks=["vmnic2"], used_ports=4),
        switch("vSwitch0", ("defmng", "VM Network", "Management Network"), uplinks=["vmnic0"], used_ports=5),
    ]
    return lines(text), lines(run(host({"vswitches": switches}), "esxcli network vswitch standard list"))


def switch(name: str, groups: tuple[str, ...], **options: object) -> dict[str, object]:
    return {"name": name, "port_groups": [{"name": group} for group in groups], **options}


@compares("esxcfg-vswitch_l")
def _esxcfg_vswitch(text: str) -> Printed:
    standard = {
        "name": "vSwitch0",
        "ports": 6690,
        "used_ports": 5,
        "uplinks": ["vmnic0"],
        "port_groups": [
            {"name": "ATmng"},
            {"name": "VM Network", "used_ports": 1},
            {"name": "Management Network", "used_ports": 1},
        ],
    }
    distributed = {
        "name": "DSwitch_063LongName",
        "mtu": 9000,
        "uplinks": ["vmnic3"],
        "ports": [{"number": "0", "client": "vmnic3"}, {"number": "9", "client": "vmk1"}],
    }
    machine = host({"vswitches": [standard], "distributed": [distributed]})
    real, emulated = lines(text), lines(run(machine, "esxcfg-vswitch -l"))
    moved = next(number for number, line in enumerate(real) if "ATmng" in line)
    assert real.pop(moved).split() == emulated.pop(moved).split()
    return real, emulated


@compares("esxcfg-module_g__nmlx5")
def _module_options(text: str) -> Printed:
    machine = host({"nics": [card("vmnic3")]})
    parameters = {
        "nmlx5_core": "pfctx=0x08 pfcrx=0x08 trust_state=2 max_vfs=4,4",
        "nmlx5_rdma": "dscp_force=26",
    }
    for module, options in parameters.items():
        run(machine, f'esxcli system module parameters set -m {module} -p "{options}"')
    return lines(text), lines(run(machine, "esxcfg-module -g nmlx5_core; esxcfg-module -g nmlx5_rdma"))


@compares("esxcli_system_version_get__7.0.2")
def _version(text: str) -> Printed:
    """The fixture has three lines, without their indent."""
    return lines(text), words(run(host(), "esxcli system version get"))[:3]


@compares("esxcli_software_vib_install__reboot_required")
def _vib(text: str) -> Printed:
    name = re.search(r"Installed: (\S+)", text)
    assert name
    machine = host()
    shown = run(machine, f"esxcli software vib install -v /tmp/{name[1]}.vib")
    assert machine.needs_reboot
    return lines(text), lines(shown)
