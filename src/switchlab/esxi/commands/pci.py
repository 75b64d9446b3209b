"""`lspci -n` and `lspci -p`: devices, their drivers, and what is passed through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from switchlab.esxi.commands.outcome import CommandOutput
from switchlab.esxi.model.drivers import vf_id_of
from switchlab.esxi.model.functions import FunctionTable
from switchlab.esxi.model.host import Host
from switchlab.esxi.model.pci import PciAddress

PASSED = "P pciPassthru"


def lspci(host: Host, arguments: Sequence[str]) -> CommandOutput:
    """Run `lspci`, `lspci -n` or `lspci -p`."""
    devices = [*_cards(host), *_functions(host)]
    form = _numbers if "-n" in arguments else _owners if "-p" in arguments else _plain
    return CommandOutput("".join(f"{form(device)}\n" for device in sorted(devices, key=lambda device: device.address)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A device as `lspci` lists it."""

    address: PciAddress
    id: str
    subsystem: str
    irq: str
    owner: str
    """`V` and the driver, or `P` if it is passed through."""
    name: str


def _cards(host: Host) -> Iterator[Listed]:
    for nic in host.nics.values():
        is_passed = str(nic.pci) in host.passed_through
        yield Listed(
            address=nic.pci,
            id=nic.device_id,
            subsystem=nic.subsystem,
            irq=nic.irq,
            owner=PASSED if is_passed else f"V {nic.driver}",
            name=nic.name,
        )


def _functions(host: Host) -> Iterator[Listed]:
    table = FunctionTable(host)
    for nic in host.own_nics:
        for function in table.of(nic):
            yield Listed(
                address=function.address,
                id=vf_id_of(nic.device_id),
                subsystem=f"{nic.device_id.partition(':')[0]}:0000",
                irq="@",
                owner=PASSED,
                name=function.name,
            )


def _numbers(device: Listed) -> str:
    return f"{device.address} Class 0200: {device.id} [{device.name}]"


def _owners(device: Listed) -> str:
    return f"{device.address} {device.id} {device.subsystem} 255/   /     {device.irq} {device.owner:<14} {device.name}"


def _plain(device: Listed) -> str:
    return f"{device.address} Network controller: {device.id} [{device.name}]"
