"""Validates the fields of control requests: any JSON may come through the socket."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from switchlab.nexus.model.counters import MacEntry, Neighbour
from switchlab.nexus.model.traffic import Packets

Arguments = Mapping[str, object]


def number(arguments: Arguments, name: str, default: int | None = None) -> int:
    """Return a field that is a whole number; without a default it is required."""
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number")
    return value


def optional_number(arguments: Arguments, name: str) -> int | None:
    """Return a field that is a whole number, or None if it is absent or null."""
    return None if arguments.get(name) is None else number(arguments, name)


def text(arguments: Arguments, name: str, default: str | None = None) -> str:
    """Return a field that is text; without a default it is required."""
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text")
    return value


def flag(arguments: Arguments, name: str, default: bool | None = None) -> bool:
    """Return a field that is true or false; without a default it is required."""
    value = arguments.get(name, default)
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false")
    return value


def check_names(arguments: Arguments, known: Collection[str]) -> None:
    """Refuse fields that a request does not have."""
    if unknown := sorted(arguments.keys() - set(known)):
        raise ValueError(f"unknown field {', '.join(unknown)}")


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
