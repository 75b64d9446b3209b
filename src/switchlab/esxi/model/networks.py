"""What is in front of the cards: virtual switches and VMs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class VirtualPortGroup:
    name: str
    vlan: int = 0
    used_ports: int = 0
    uplinks: str = ""


@dataclass(slots=True, kw_only=True)
class StandardSwitch:
    name: str
    mtu: int = 1500
    uplinks: tuple[str, ...] = ()
    port_groups: list[VirtualPortGroup] = field(default_factory=list)
    device_class: str = "cswitch"
    ports: int = 8570
    used_ports: int = 4


@dataclass(slots=True, kw_only=True)
class DistributedPort:
    number: str
    client: str
    in_use: bool = True


@dataclass(slots=True, kw_only=True)
class DistributedSwitch:
    name: str
    mtu: int = 1500
    uplinks: tuple[str, ...] = ()
    ports: list[DistributedPort] = field(default_factory=list)
    total_ports: int = 6690
    used_ports: int = 4


@dataclass(slots=True, kw_only=True)
class VirtualFunction:
    """A virtual function that a VM has."""

    nic: str
    number: int
    mac: str = ""


@dataclass(slots=True, kw_only=True)
class Vm:
    """A virtual machine; it starts with the host, if the host has what it needs."""

    name: str
    vfs: tuple[VirtualFunction, ...] = ()
    passthrough: tuple[str, ...] = ()
    """PCI addresses of cards that it has for itself."""
    path: str = ""
    uuid: str = ""
    world: int = 0
    cartel: int = 0
    running: bool = False

    def __post_init__(self) -> None:
        self.path = self.path or f"/vmfs/volumes/datastore1/{self.name}/{self.name}.vmx"
        self.uuid = self.uuid or _uuid_of(self.name)

    def describe(self) -> str:
        """Return the lines of its file, as far as they are about passed-through devices."""
        lines = [f'displayName = "{self.name}"', f'uuid.bios = "{self.uuid}"']
        for index, vf in enumerate(self.vfs):
            lines.append(f'pciPassthru{index}.present = "TRUE"')
            lines.append(f'pciPassthru{index}.MACAddress = "{vf.mac}"')
            lines.append(f'pciPassthru{index}.allowMTUChange = "TRUE"')
        return "".join(f"{line}\n" for line in lines)


def _uuid_of(name: str) -> str:
    digits = hashlib.sha256(name.encode()).hexdigest()[:32]
    pairs = [digits[at : at + 2] for at in range(0, 32, 2)]
    return f"{' '.join(pairs[:8])}-{' '.join(pairs[8:])}"


def mac_of(name: str, index: int) -> str:
    """Return an address as VMware gives them to a VM's adapters."""
    digits = hashlib.sha256(f"{name} {index}".encode()).hexdigest()
    return f"00:50:56:{int(digits[:2], 16) & 0x3F | 0x80:02x}:{digits[2:4]}:{digits[4:6]}"
