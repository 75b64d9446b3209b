"""What control requests describe: neighbours, addresses and bursts of traffic."""

from __future__ import annotations

from switchlab.common.fields import Arguments, check_names, flag, number, text
from switchlab.nexus.model.counters import MacEntry, Neighbour
from switchlab.nexus.model.traffic import Packets


def neighbour(arguments: Arguments) -> Neighbour:
    """Return the LLDP neighbour that a request describes."""
    check_names(arguments, Neighbour.__dataclass_fields__)
    return Neighbour(
        port=text(arguments, "port"),
        chassis_id=text(arguments, "chassis_id"),
        port_id=text(arguments, "port_id"),
        system_name=text(arguments, "system_name"),
        port_description=text(arguments, "port_description", "null"),
        system_description=text(arguments, "system_description", "Linux"),
        capabilities=text(arguments, "capabilities", "S"),
        management_address=text(arguments, "management_address", "not advertised"),
        vlan=text(arguments, "vlan", "not advertised"),
        hold=number(arguments, "hold", 120),
    )


def mac_entry(arguments: Arguments) -> MacEntry:
    """Return the entry of the MAC table that a request describes."""
    check_names(arguments, MacEntry.__dataclass_fields__)
    return MacEntry(vlan=number(arguments, "vlan"), address=text(arguments, "address"), port=text(arguments, "port"))


def packets(arguments: Arguments) -> Packets:
    """Return the burst that a request describes."""
    check_names(arguments, {"port_in", "port_out", *Packets.__dataclass_fields__})
    return Packets(
        dscp=number(arguments, "dscp"),
        bytes=number(arguments, "bytes"),
        packet_size=number(arguments, "packet_size", 4096),
        cos=number(arguments, "cos", 0),
        ecn_capable=flag(arguments, "ecn_capable", default=True),
        depth=number(arguments, "depth", 0),
    )
