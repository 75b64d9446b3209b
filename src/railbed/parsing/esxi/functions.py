"""Virtual functions, their VMs, passed-through devices and RDMA devices of an ESXi host.

Before 8.0 U3 the address of a virtual function is decimal (`00000:101:00.1`), later hexadecimal (`0000:65:00.1`): here
it is always the latter. Its owner is a VM's World ID up to 8, and its VMX Cartel ID from 9.0, in the same column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.parsing.esxi.layout import blocks, optional_count, require, table, truth
from railbed.parsing.text import integer

NO_SRIOV = re.compile(r"There is no SRIOV Nic with name \S+")
DECIMAL = re.compile(r"(\d{5}):(\d{3}):(\d{2})\.(\d)", re.ASCII)
HEXADECIMAL = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
OWNER = re.compile(
    r"([0-9a-f:.]++) ([0-9a-f]{4}:[0-9a-f]{4}) ([0-9a-f]{4}:[0-9a-f]{4}) \S++ ++/ ++\S ([PV]) (\S++)(?: ++(\S++))?"
)
NUMBERED = re.compile(r"([0-9a-f:.]+) Class ([0-9a-f]{4}): ([0-9a-f]{4}:[0-9a-f]{4})(?: +\[(\S+)\])?")
FUNCTION_NAME = re.compile(r"PF_(\d{1,5})\.(\d{1,3})\.(\d)_VF_(\d{1,3})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiFunction:
    """A virtual function of a port."""

    number: int
    active: bool
    pci: str
    owner: int | None
    """The World ID or the VMX Cartel ID of its VM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiVm:
    """A VM that runs."""

    name: str
    world: int
    cartel: int
    uuid: str
    config_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiDevice:
    """A PCI device."""

    pci: str
    id: str
    """Vendor and device, such as `15b3:1015`."""
    name: str | None
    """`vmnic3`, or `PF_0.202.0_VF_1` of a virtual function, whose bus is decimal."""
    passed_through: bool | None = None
    """None if the command does not report it."""
    driver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiRdmaDevice:
    """An RDMA device of the host itself."""

    name: str
    driver: str
    active: bool
    mtu: int | None
    gbps: int | None
    uplink: str | None


def parse_functions(text: str) -> list[EsxiFunction]:
    """Read `esxcli network sriovnic vf list`; a card without SR-IOV has none."""
    if NO_SRIOV.search(text):
        return []
    functions = []
    for row in table(text, "VF ID", "Active", "PCI Address", "Owner World ID"):
        active = truth(row["Active"])
        if active is None:
            raise ParseError("no state of a virtual function", line=row["VF ID"])
        address, owner = hexadecimal_address(row["PCI Address"]), optional_count(row["Owner World ID"])
        functions.append(EsxiFunction(number=integer(row["VF ID"]), active=active, pci=address, owner=owner))
    return functions


def hexadecimal_address(text: str) -> str:
    """Return a PCI address as all commands of newer releases write it."""
    if match := DECIMAL.fullmatch(text):
        domain, bus, device, function = (integer(group) for group in match.groups())
        if bus < 256 and device < 32 and function < 8:
            return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    elif HEXADECIMAL.fullmatch(text):
        return text
    raise ParseError("not a PCI address", line=text)


def parse_vms(text: str) -> list[EsxiVm]:
    """Read `esxcli vm process list`; nothing at all if no VM runs."""
    vms = [
        EsxiVm(
            name=require(tree, "Display Name"),
            world=integer(require(tree, "World ID")),
            cartel=integer(require(tree, "VMX Cartel ID")),
            uuid=require(tree, "UUID"),
            config_file=require(tree, "Config File"),
        )
        for _, tree in blocks(text)
    ]
    if not vms and text.strip():
        raise ParseError("no VM", line=text.strip()[:80])
    return vms


def owner_of(function: EsxiFunction, vms: Iterable[EsxiVm]) -> EsxiVm | None:
    """Return the VM that has a virtual function. Both kinds of numbers come from one counter, so they never collide."""
    return next((vm for vm in vms if function.owner in (vm.world, vm.cartel)), None)


def parse_passthrough(text: str) -> dict[str, bool]:
    """Read `esxcli hardware pci pcipassthru list`: whether each device that can be passed through is."""
    return {row["Device ID"]: bool(truth(row["Enabled"])) for row in table(text, "Device ID", "Enabled")}


def parse_devices(text: str) -> list[EsxiDevice]:
    """Read `lspci -p` or `lspci -n`."""
    devices: list[EsxiDevice] = []
    for line in map(str.strip, text.splitlines()):
        if match := OWNER.fullmatch(line):
            is_passed = match[4] == "P"
            driver = None if is_passed else match[5]
            devices.append(
                EsxiDevice(pci=match[1], id=match[2], name=match[6], passed_through=is_passed, driver=driver)
            )
        elif match := NUMBERED.fullmatch(line):
            devices.append(EsxiDevice(pci=match[1], id=match[3], name=match[4]))
    if not devices:
        raise ParseError("no device", line=text.strip()[:80])
    return devices


def function_of(name: str) -> tuple[str, int] | None:
    """Return the address of the card and the number of a virtual function with this name; None for other names."""
    match = FUNCTION_NAME.fullmatch(name)
    if match is None:
        return None
    domain, bus, function, number = (integer(group) for group in match.groups())
    return f"{domain:04x}:{bus:02x}:00.{function}", number


def parse_rdma_devices(text: str) -> list[EsxiRdmaDevice]:
    """Read `esxcli rdma device list`."""
    devices = []
    for row in table(text, "Name", "Driver", "State", "MTU", "Speed", "Paired Uplink"):
        speed = row["Speed"].removesuffix(" Gbps")
        devices.append(
            EsxiRdmaDevice(
                name=row["Name"],
                driver=row["Driver"],
                active=row["State"] == "Active",
                mtu=optional_count(row["MTU"]),
                gbps=optional_count(speed),
                uplink=row["Paired Uplink"] or None,
            )
        )
    return devices


def parse_rdma_protocols(text: str) -> dict[str, dict[str, bool]]:
    """Read `esxcli rdma device protocol list`: the protocols of each device."""
    return {
        row["Device"]: {name: bool(truth(value)) for name, value in row.items() if name != "Device"}
        for row in table(text, "Device", "RoCE v1", "RoCE v2")
    }


def parse_rdma_vmknics(text: str) -> dict[str, str]:
    """Read `esxcli rdma device vmknic list`: the vmkernel adapter of each device."""
    return {row["Device"]: row["Vmknic"] for row in table(text, "Device", "Vmknic")}
