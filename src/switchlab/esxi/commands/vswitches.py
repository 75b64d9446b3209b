"""`esxcli network vswitch`: standard and distributed switches, port groups and MTU."""

from __future__ import annotations

from switchlab.esxi.commands.tree import EsxCommand, Option, Options
from switchlab.esxi.formats.records import Answer, Value
from switchlab.esxi.model.host import Host, Refused

SMALLEST_MTU, LARGEST_MTU = 1280, 9000
PORT_GROUP_COLUMNS = ("Name", "Virtual Switch", "Active Clients", "VLAN ID")


def _standard(host: Host, _options: Options) -> Answer:
    switches = host.description.vswitches
    rows: list[dict[str, Value]] = [
        {
            "Name": switch.name,
            "Class": switch.device_class,
            "Num Ports": switch.ports,
            "Used Ports": switch.used_ports,
            "Configured Ports": 128,
            "MTU": switch.mtu,
            "CDP Status": "listen",
            "Beacon Enabled": False,
            "Beacon Interval": 1,
            "Beacon Threshold": 3,
            "Beacon Required By": (),
            "Uplinks": switch.uplinks,
            "Portgroups": tuple(group.name for group in switch.port_groups),
        }
        for switch in switches
    ]
    return Answer(type_name="VirtualSwitch", structures=rows, titles=[switch.name for switch in switches])


def _set_standard(host: Host, options: Options) -> str:
    """Set the MTU of a switch and its uplinks."""
    name, mtu = options.text("vswitch-name"), options.text("mtu")
    switch = next((item for item in host.description.vswitches if item.name == name), None)
    if switch is None:
        raise Refused(f"Unable to find vSwitch {name}")
    if mtu and not (mtu.isascii() and mtu.isdigit() and len(mtu) < 6 and SMALLEST_MTU <= int(mtu) <= LARGEST_MTU):
        raise Refused(f"Unable to set MTU to {mtu}: Bad parameter")
    if mtu:
        switch.mtu = int(mtu)
        for uplink in switch.uplinks:
            if (nic := host.own_nic(uplink)) is not None:
                nic.mtu = switch.mtu
        host.save()
    return ""


def _port_groups(host: Host, _options: Options) -> Answer:
    rows: list[dict[str, Value]] = [
        {"Name": group.name, "Virtual Switch": switch.name, "Active Clients": group.used_ports, "VLAN ID": group.vlan}
        for switch in host.description.vswitches
        for group in switch.port_groups
    ]
    return Answer(type_name="PortGroup", structures=rows, columns=PORT_GROUP_COLUMNS)


def _list_distributed(host: Host, _options: Options) -> Answer:
    switches = host.description.distributed
    rows: list[dict[str, Value]] = [
        {
            "Name": switch.name,
            "Class": "cswitch",
            "Num Ports": switch.total_ports,
            "Used Ports": switch.used_ports,
            "Configured Ports": 512,
            "MTU": switch.mtu,
            "CDP Status": "listen",
            "Beacon Timeout": -1,
            "Uplinks": switch.uplinks,
            "VMware Branded": True,
        }
        for switch in switches
    ]
    return Answer(type_name="DVSwitch", structures=rows, titles=[switch.name for switch in switches])


SET_OPTIONS = (
    Option(short="m", long="mtu", type="long", help="The MTU size of the virtual switch."),
    Option(short="v", long="vswitch-name", help="The name of the virtual switch.", required=True),
)
COMMANDS = (
    EsxCommand(words="network vswitch standard list", handle=_standard, help="List the standard virtual switches."),
    EsxCommand(
        words="network vswitch standard set",
        handle=_set_standard,
        options=SET_OPTIONS,
        help="Set the MTU of a standard virtual switch.",
        changes=True,
    ),
    EsxCommand(words="network vswitch standard portgroup list", handle=_port_groups, help="List the port groups."),
    EsxCommand(
        words="network vswitch dvs vmware list", handle=_list_distributed, help="List the distributed switches."
    ),
)
