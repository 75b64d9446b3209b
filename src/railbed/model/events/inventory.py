"""Events of `report --cluster`: what a cluster consists of, as it was read last. What was not read is None."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineListed(Event):
    """A node of the cluster: its system, processors and memory, and the versions of what trains on it."""

    name: ClassVar = "machine"
    host: str
    """Address or name that it is reached by."""
    read: float | None = None
    """When it was read last; None if it never was."""
    system: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    hypervisor: str | None = None
    processor: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    memory_bytes: int | None = None
    workdir_bytes: int | None = None
    """Size of the file system with the training folder."""
    workdir_free_bytes: int | None = None
    python: str | None = None
    torch: str | None = None
    torch_build: str | None = None
    """What PyTorch was built for: `CUDA 13.0`, `CPU`."""
    gpu_driver: str | None = None
    gpu_cuda: str | None = None
    """Newest CUDA version that the driver supports."""
    bmc: str | None = None
    """Address of its BMC, if the cluster file has one."""
    power: str | None = None
    """Whether it was on, by its BMC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePortListed(Event):
    """A port of a node, with its card; the subject is `NODE/INTERFACE`."""

    name: ClassVar = "node_port"
    rail: str
    address: str
    far_end: str
    """What the cluster file says it is cabled to; empty if it does not say."""
    mac: str | None = None
    mtu: int | None = None
    state: str | None = None
    speed_gbps: float | None = None
    rdma: str | None = None
    """RDMA device of the cluster file."""
    card: str | None = None
    """Its type, and the board's id."""
    driver: str | None = None
    firmware: str | None = None
    pci: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuListed(Event):
    """A GPU of a node; the subject is `NODE/gpuN`. Temperature and power are those of the moment when it was read."""

    name: ClassVar = "gpu"
    model: str
    memory_bytes: int | None = None
    temperature_celsius: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    ecc: bool | None = None
    uncorrected_errors: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    cuda: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskListed(Event):
    """A disk of a node; the subject is `NODE/DISK`."""

    name: ClassVar = "disk"
    size_bytes: int
    model: str | None = None
    rotational: bool | None = None
    transport: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchListed(Event):
    """A switch of the cluster."""

    name: ClassVar = "switch"
    host: str
    """Address or name that it is reached by; empty if it cannot be logged in to."""
    read: float | None = None
    """When it was read last; None if it never was."""
    model: str | None = None
    release: str | None = None
    hostname: str | None = None
    serial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPortListed(Event):
    """A port of a switch that a node is cabled to; the subject is `SWITCH PORT`."""

    name: ClassVar = "switch_port"
    node: str
    interface: str
    up: bool | None = None
    speed_gbps: float | None = None
    mtu: int | None = None
    transceiver: str | None = None
