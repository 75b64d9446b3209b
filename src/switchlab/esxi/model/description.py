"""The description of a host as JSON: its cards, switches, VMs and stored module parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from switchlab.common.fields import Arguments, check_names, flag, number, optional_number, text
from switchlab.esxi.model.cards import Nic, SwitchPort
from switchlab.esxi.model.drivers import MODULES
from switchlab.esxi.model.networks import (
    DistributedPort,
    DistributedSwitch,
    StandardSwitch,
    VirtualFunction,
    VirtualPortGroup,
    Vm,
    mac_of,
)
from switchlab.esxi.model.pci import PciAddress

OPTIONAL_TEXTS = ("device_id", "subsystem", "irq", "firmware", "driver_version", "cable", "wakeon", "hardware_text")


@dataclass(kw_only=True)
class Description:
    nics: list[Nic] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    """The options of modules, running and stored."""
    vswitches: list[StandardSwitch] = field(default_factory=list)
    distributed: list[DistributedSwitch] = field(default_factory=list)
    vms: list[Vm] = field(default_factory=list)
    passthrough: dict[str, bool] = field(default_factory=dict)
    """PCI addresses of devices that can be passed through, and whether they are."""
    vmknics: dict[str, str] = field(default_factory=dict)
    """The vmkernel adapter of RDMA devices."""


def read_description(content: str) -> Description:
    """Read the description; raise ValueError with the mistake."""
    try:
        value = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the description is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("the description is not a JSON object")  # noqa: TRY004 - a mistake in a file
    try:
        return _description(value)
    except (TypeError, KeyError) as error:
        raise ValueError(f"the description has a mistake: {error}") from error


def _description(value: Arguments) -> Description:
    check_names(value, Description.__dataclass_fields__)
    description = Description(
        nics=[_nic(item) for item in _objects(value, "nics")],
        modules={name: str(options) for name, options in _mapping(value, "modules").items()},
        vswitches=[_standard(item) for item in _objects(value, "vswitches")],
        distributed=[_read_distributed(item) for item in _objects(value, "distributed")],
        vms=[_vm(item) for item in _objects(value, "vms")],
        passthrough={str(PciAddress.parse(name)): bool(on) for name, on in _mapping(value, "passthrough").items()},
        vmknics={name: str(vmknic) for name, vmknic in _mapping(value, "vmknics").items()},
    )
    if unknown := [name for name in description.modules if name not in MODULES]:
        raise ValueError(f"no module {unknown[0]}; there are {', '.join(MODULES)}")
    names = {nic.name for nic in description.nics}
    used = {vf.nic for vm in description.vms for vf in vm.vfs}
    if unknown := sorted(used - names):
        raise ValueError(f"a VM has a virtual function of {unknown[0]}, which is not among the nics")
    return description


def _nic(value: Arguments) -> Nic:
    check_names(value, set(Nic.__dataclass_fields__) - {"pause", "counters"})
    driver = text(value, "driver", "nmlx5_core")
    if driver not in MODULES:
        raise ValueError(f"no driver {driver}; there are {', '.join(MODULES)}")
    first = text(value, "vf_first", "")
    modes = _texts(value, "link_modes")
    nic = Nic(
        name=text(value, "name"),
        pci=PciAddress.parse(text(value, "pci")),
        driver=driver,
        mac=text(value, "mac"),
        description=text(value, "description", "Mellanox Technologies ConnectX-4 Lx EN NIC; 25GbE; dual-port SFP28"),
        up=flag(value, "up", default=True),
        mbps=number(value, "mbps", 25000),
        mtu=number(value, "mtu", 1500),
        vf_first=PciAddress.parse(first) if first else None,
        has_rdma=flag(value, "has_rdma", default=False),
        peer=read_peer(_mapping(value, "peer")),
    )
    for name in OPTIONAL_TEXTS:
        setattr(nic, name, text(value, name, getattr(nic, name)))
    nic.link_modes = modes or nic.link_modes
    return nic


def read_peer(value: Arguments) -> SwitchPort:
    check_names(value, SwitchPort.__dataclass_fields__)
    dcbx, pfc = text(value, "dcbx", ""), optional_number(value, "pfc")
    if dcbx not in ("", "ieee", "cee"):
        raise ValueError("dcbx must be ieee, cee or empty")
    if pfc is not None and not 0 <= pfc <= 255:
        raise ValueError("pfc must be from 0 to 255, a bit for each priority")
    return SwitchPort(switch=text(value, "switch", ""), port=text(value, "port", ""), dcbx=dcbx, pfc=pfc)


def _standard(value: Arguments) -> StandardSwitch:
    check_names(value, StandardSwitch.__dataclass_fields__)
    return StandardSwitch(
        name=text(value, "name"),
        mtu=number(value, "mtu", 1500),
        uplinks=_texts(value, "uplinks"),
        port_groups=[_port_group(item) for item in _objects(value, "port_groups")],
        device_class=text(value, "device_class", "cswitch"),
        ports=number(value, "ports", 8570),
        used_ports=number(value, "used_ports", 4),
    )


def _port_group(value: Arguments) -> VirtualPortGroup:
    check_names(value, VirtualPortGroup.__dataclass_fields__)
    return VirtualPortGroup(
        name=text(value, "name"),
        vlan=number(value, "vlan", 0),
        used_ports=number(value, "used_ports", 0),
        uplinks=text(value, "uplinks", ""),
    )


def _read_distributed(value: Arguments) -> DistributedSwitch:
    check_names(value, DistributedSwitch.__dataclass_fields__)
    ports = [
        DistributedPort(
            number=text(item, "number"), client=text(item, "client"), in_use=flag(item, "in_use", default=True)
        )
        for item in _objects(value, "ports")
    ]
    return DistributedSwitch(
        name=text(value, "name"),
        mtu=number(value, "mtu", 1500),
        uplinks=_texts(value, "uplinks"),
        ports=ports,
        total_ports=number(value, "total_ports", 6690),
        used_ports=number(value, "used_ports", 4),
    )


def _vm(value: Arguments) -> Vm:
    check_names(value, ("name", "vfs", "passthrough", "path", "uuid"))
    name = text(value, "name")
    functions = [
        VirtualFunction(
            nic=text(item, "nic"), number=number(item, "number"), mac=text(item, "mac", mac_of(name, index))
        )
        for index, item in enumerate(_objects(value, "vfs"))
    ]
    return Vm(
        name=name,
        vfs=tuple(functions),
        passthrough=tuple(str(PciAddress.parse(item)) for item in _texts(value, "passthrough")),
        path=text(value, "path", ""),
        uuid=text(value, "uuid", ""),
    )


def _objects(value: Arguments, name: str) -> list[Arguments]:
    items = value.get(name, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise TypeError(f"{name} must be a list of objects")
    return items


def _mapping(value: Arguments, name: str) -> Mapping[str, object]:
    items = value.get(name, {})
    if not isinstance(items, dict):
        raise TypeError(f"{name} must be an object")
    return items


def _texts(value: Arguments, name: str) -> tuple[str, ...]:
    items = value.get(name, [])
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise TypeError(f"{name} must be a list of texts")
    return tuple(items)
