"""A lab as data: everything about it follows from a few numbers, so that it can be taken down without a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from pathlib import Path
from typing import Literal

KindName = Literal["netns", "vm"]
ArchitectureName = Literal["aarch64", "x86_64"]
SchedulerName = Literal["slurm"]
AcceleratorName = Literal["kvm", "tcg"]
PlatformName = Literal["n9k", "n9k-400g", "n9k-9.2", "n9k-ale", "n5k"]
FaultName = Literal["cut", "freeze", "kill", "slow", "lose", "mark", "mtu", "refuse"]
HOST_MTU = 9000
SWITCH = "nexus"
"""Name of the emulated switch of a lab."""
CONTROLLER, CONTROLLER_NUMBER = "controller", 252
"""The machine of a lab with a scheduler that runs it and submits jobs; like a node, but on no rail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The requested lab."""

    name: str
    kind: KindName
    nodes: int
    rails: int = 1
    rate: int | None = None
    """Speed of every link in bit/s; None means as fast as this machine allows."""
    delay: float | None = None
    """Additional delay of every packet, in seconds."""
    memory: int = 0
    """Megabytes of a virtual machine."""
    arch: ArchitectureName | None = None
    """Processor of a virtual machine; None is this machine's."""
    accelerator: AcceleratorName | None = None
    """What runs virtual machines: KVM or QEMU's emulation; None is the fastest that works here."""
    training: bool = False
    """Whether virtual machines have what training needs; namespaces see this machine's Python."""
    switch: PlatformName | None = None
    """Model of the emulated switch that the rails are cabled to; None for a lab without one."""
    scheduler: SchedulerName | None = None
    """The scheduler that lends the nodes to jobs; None for a lab without one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in force."""

    fault: FaultName
    target: str
    """A node, a rail, the switch or the controller."""
    value: float | None = None
    """Bit/s for `slow` and `mark`, percent for `lose`, bytes for `mtu`."""
    text: str = ""
    """For `refuse`, the beginning of the commands that the switch refuses."""


@dataclass(frozen=True, slots=True)
class LabNode:
    """One node and its addresses."""

    number: int
    lab: int
    """The lab's number, different for each lab on this machine."""

    @property
    def name(self) -> str:
        """`node1`, `node2`, …, or `controller`."""
        return CONTROLLER if self.number == CONTROLLER_NUMBER else f"node{self.number}"

    def rail_address(self, rail: int) -> IPv4Address:
        """Return its address on a rail."""
        return rail_subnet(self.lab, rail)[self.number]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDoor:
    """Where the emulated switch listens."""

    host: str
    ssh_port: int
    nxapi_port: int
    enter: tuple[str, ...] = ()
    """Command that runs another inside the network of the switch; empty for this machine's own network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLab:
    """A lab as stored on disk."""

    spec: Spec
    number: int
    """1 to 254, different for each lab on this machine: addresses derive from it."""
    id: str
    """Random: names in the kernel derive from it, so that cleaning up never touches anything of others."""
    folder: Path
    state: Literal["starting", "up"] = "starting"
    faults: tuple[Fault, ...] = field(default=())

    @property
    def nodes(self) -> tuple[LabNode, ...]:
        """All nodes."""
        return tuple(LabNode(number, self.number) for number in range(1, self.spec.nodes + 1))

    @property
    def controller(self) -> LabNode | None:
        """The machine that runs the scheduler, if there is one."""
        return LabNode(CONTROLLER_NUMBER, self.number) if self.spec.scheduler else None

    @property
    def machines(self) -> tuple[LabNode, ...]:
        """The nodes, and the controller if there is one."""
        return (*self.nodes, *([self.controller] if self.controller else []))

    @property
    def rails(self) -> dict[str, int]:
        """Numbers of the rails, by name."""
        return {rail_name(rail): rail for rail in range(self.spec.rails)}

    @property
    def key(self) -> Path:
        """The private key that logs in to every node."""
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        """The host keys of all nodes."""
        return self.folder / "known_hosts"

    @property
    def cluster_file(self) -> Path:
        """The cluster file that every verb accepts."""
        return self.folder / "cluster.yaml"

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of everything that accepts SSH logins: the nodes, and the controller and the switch if it has them."""
        return (*(machine.name for machine in self.machines), *([SWITCH] if self.spec.switch else []))

    def host_key(self, device: str) -> Path:
        """Return the private host key of a device."""
        return self.folder / f"{device}.host_key"

    def node(self, name: str) -> LabNode | None:
        """Return a node by name."""
        return next((node for node in self.nodes if node.name == name), None)

    def of(self, fault: FaultName, target: str) -> Fault | None:
        """Return the declared fault of that kind on a target."""
        return next((each for each in self.faults if each.fault == fault and each.target == target), None)

    def ports(self) -> Iterator[tuple[LabNode, int]]:
        """Yield every node with the number of every rail."""
        for node in self.nodes:
            for rail in range(self.spec.rails):
                yield node, rail

    def find_limit(self, node: LabNode, rail: int) -> float | None:
        """Return the bit/s to which faults limit a node's link to a rail; None if no fault slows it."""
        faults = (self.of("slow", target) for target in (node.name, rail_name(rail)))
        return min((fault.value for fault in faults if fault and fault.value), default=None)

    def is_cut(self, node: LabNode, rail: int) -> bool:
        """Whether a fault cuts this node off this rail."""
        return bool(self.of("cut", node.name) or self.of("cut", rail_name(rail)))


def rail_name(rail: int) -> str:
    """Return `rail0`, `rail1`, …, which is also the name of the interface on the nodes."""
    return f"rail{rail}"


def rail_subnet(lab: int, rail: int) -> IPv4Network:
    """Return the subnet of a rail."""
    subnet = ip_network(f"10.{100 + rail}.{lab}.0/24")
    assert isinstance(subnet, IPv4Network)
    return subnet


def management_address(lab: int, host: int) -> IPv4Address:
    """Return an address on a management network: of a node (1 to 251), the switch (253), this machine (254), …"""
    address = ip_address(f"10.77.{lab}.{host}")
    assert isinstance(address, IPv4Address)
    return address
