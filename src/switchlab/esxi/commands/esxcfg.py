"""`esxcfg-nics`, `esxcfg-module` and `esxcfg-vswitch`."""

from __future__ import annotations

from collections.abc import Sequence

from switchlab.esxi.commands.esxcli import READ_ONLY
from switchlab.esxi.commands.outcome import CommandOutput, fail
from switchlab.esxi.commands.system import check_options, stored_module
from switchlab.esxi.model.cards import Nic
from switchlab.esxi.model.host import Host, Refused

NICS_HEADING = "Name    PCI          Driver      Link Speed      Duplex MAC Address       MTU    Description"
SWITCH_HEADING = "Switch Name      Num Ports   Used Ports  Configured Ports  MTU     Uplinks"
GROUP_HEADING = "  PortGroup Name                            VLAN ID  Used Ports  Uplinks"
PORT_HEADING = "  DVPort ID                               In Use      Client"


def esxcfg_nics(host: Host, arguments: Sequence[str]) -> CommandOutput:
    """Run `esxcfg-nics -l`: sorted by name as text."""
    if list(arguments) not in (["-l"], ["--list"]):
        return CommandOutput("esxcfg-nics <options> [nic]\n -l|--list                     Print the list of NICs.\n", 1)
    nics = sorted(host.own_nics, key=lambda nic: nic.name)
    return CommandOutput("".join(f"{line}\n" for line in [NICS_HEADING, *map(_nic, nics)]))


def _nic(nic: Nic) -> str:
    speed = f"{nic.shown_mbps}Mbps"
    return (
        f"{nic.name:<7} {nic.pci!s:<12} {nic.driver:<11} {nic.link:<4} {speed:<10} {nic.duplex:<6} {nic.mac:<17}"
        f" {nic.mtu:<6} {nic.description}"
    )


def esxcfg_module(host: Host, arguments: Sequence[str]) -> CommandOutput:
    """Run `esxcfg-module -g MODULE` and `-s OPTIONS MODULE`."""
    try:
        match list(arguments):
            case ["-g" | "--get-options", name]:
                module = stored_module(host, name)
                return CommandOutput(f"{module} enabled = 1 options = '{host.stored[module]}'\n")
            case ["-s" | "--set-options", options, name]:
                if host.lockdown == "read-only":
                    return fail(READ_ONLY)
                module = stored_module(host, name)
                check_options(module, options)
                host.store_options(module, options)
                return CommandOutput()
    except Refused as refusal:
        return fail(str(refusal))
    usage = ["esxcfg-module <options> [module]", " -g|--get-options     Print the options of a module.", ""]
    return CommandOutput("\n".join(usage), 1)


def esxcfg_vswitch(host: Host, arguments: Sequence[str]) -> CommandOutput:
    """Run `esxcfg-vswitch -l`."""
    if list(arguments) not in (["-l"], ["--list"]):
        return CommandOutput(
            "esxcfg-vswitch [options] [vswitch[:ports]]\n -l|--list   List all the virtual switches.\n", 1
        )
    lines: list[str] = []
    for switch in host.description.vswitches:
        lines += [SWITCH_HEADING, _row(switch.name, (switch.ports, switch.used_ports, 128, switch.mtu), switch.uplinks)]
        lines += ["", GROUP_HEADING]
        for group in switch.port_groups:
            uplinks = group.uplinks or ",".join(switch.uplinks)
            lines.append(f"  {group.name:<40}  {group.vlan:<7}  {group.used_ports:<10}  {uplinks}")
        lines.append("")
    for distributed in host.description.distributed:
        lines.append(SWITCH_HEADING.replace("Switch Name", "DVS Name   "))
        sizes = (distributed.total_ports, distributed.used_ports, 512, distributed.mtu)
        lines += [_row(distributed.name, sizes, distributed.uplinks), "", PORT_HEADING]
        for port in distributed.ports:
            lines.append(f"  {port.number:<38}  {int(port.in_use):<10}  {port.client}")
        lines.append("")
    return CommandOutput("".join(f"{line}\n" for line in lines))


def _row(name: str, sizes: tuple[int, int, int, int], uplinks: Sequence[str]) -> str:
    ports, used, configured, mtu = sizes
    return f"{name:<16} {ports:<10}  {used:<10}  {configured:<16}  {mtu:<6}  {','.join(uplinks)}"
