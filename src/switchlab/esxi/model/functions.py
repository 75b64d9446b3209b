"""Virtual functions: how many each port has, where they are, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from switchlab.esxi.model.cards import Nic
from switchlab.esxi.model.drivers import element_of
from switchlab.esxi.model.networks import Vm
from switchlab.esxi.model.pci import PciAddress

MOST = 128


class HasCards(Protocol):
    """A host, as far as its virtual functions depend on it."""

    nics: dict[str, Nic]
    loaded: dict[str, dict[str, str]]
    vms: list[Vm]

    @property
    def own_nics(self) -> list[Nic]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One virtual function."""

    nic: Nic
    number: int
    address: PciAddress
    owner: Vm | None

    @property
    def name(self) -> str:
        """As `lspci` names it: the card's bus is decimal."""
        pci = self.nic.pci
        return f"PF_{pci.domain}.{pci.bus}.{pci.function}_VF_{self.number}"


class FunctionTable:
    def __init__(self, host: HasCards) -> None:
        self._host = host

    def count(self, nic: Nic) -> int:
        """Return how many virtual functions a port has: its element of `max_vfs`, in the order of PCI addresses."""
        same = [other for other in self._host.own_nics if other.driver == nic.driver]
        index = sorted(same, key=lambda other: other.pci).index(nic) if nic in same else -1
        options = self._host.loaded.get(nic.driver, {})
        return min(max(element_of(options, "max_vfs", index), 0), MOST) if index >= 0 else 0

    def has(self, nic: str, number: int) -> bool:
        return nic in self._host.nics and 0 <= number < self.count(self._host.nics[nic])

    def of(self, nic: Nic) -> Iterator[Function]:
        """Yield the virtual functions of a port."""
        owners = {(vf.nic, vf.number): vm for vm in self._host.vms if vm.running for vf in vm.vfs}
        first = self._first(nic)
        for number in range(self.count(nic)):
            yield Function(nic=nic, number=number, address=first.after(number), owner=owners.get((nic.name, number)))

    def _first(self, nic: Nic) -> PciAddress:
        """Return the address of a port's first function: behind the card's ports, and the functions of those before."""
        if nic.vf_first is not None:
            return nic.vf_first
        slot = (nic.pci.domain, nic.pci.bus, nic.pci.device)
        card = [other for other in self._host.own_nics if (other.pci.domain, other.pci.bus, other.pci.device) == slot]
        last = max(other.pci for other in card)
        return last.after(1 + sum(self.count(other) for other in card if other.pci < nic.pci))
