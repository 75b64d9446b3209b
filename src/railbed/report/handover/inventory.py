"""What a cluster consists of, as records: from the cluster file and the newest facts of its devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from railbed.model import events
from railbed.model.cabling import far_end, port_key
from railbed.model.cluster import Cluster, Port, Switch, SwitchPort, bmc_name
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Event
from railbed.model.text import plural, size
from railbed.probes import (
    block_devices,
    cpu,
    disk,
    ethtool,
    ethtool_driver,
    gpu,
    infiniband,
    ip_link,
    memory,
    os_release,
    torch,
)
from railbed.probes.bmc import power
from railbed.probes.gpu import Gpus, InstalledGpu
from railbed.probes.infiniband import RdmaDevice
from railbed.probes.nexus import interface, transceiver, version
from railbed.probes.nexus.transceiver import Transceiver

PROBES: tuple[Probe[Any], ...] = (
    block_devices.PROBE,
    cpu.PROBE,
    disk.PROBE,
    ethtool.PROBE,
    ethtool_driver.PROBE,
    gpu.PROBE,
    infiniband.PROBE,
    ip_link.PROBE,
    memory.PROBE,
    os_release.PROBE,
    torch.PROBE,
    power.PROBE,
    interface.PROBE,
    transceiver.PROBE,
    version.PROBE,
)
"""What the inventory is made from."""
F = TypeVar("F")
V = TypeVar("V")


def inventory(cluster: Cluster, devices: Mapping[str, DeviceFacts]) -> Iterator[Event]:
    """Yield a record for each machine, port, GPU, disk and switch; what was not read is None in it."""
    for name in cluster.nodes:
        facts = devices.get(name, DeviceFacts(device=name))
        yield _machine(cluster, name, facts, devices.get(bmc_name(name)))
        for port in cluster.nodes[name].ports:
            yield _node_port(cluster, name, port, facts)
        yield from _gpus(cluster, name, facts)
        yield from _disks(name, facts)
    for name, switch in cluster.switches.items():
        facts = devices.get(name, DeviceFacts(device=name))
        yield _switch(name, switch, facts)
        for switch_port in switch.ports:
            yield _switch_port(name, switch_port, facts)


def _facts_of(facts: DeviceFacts, probe: Probe[F]) -> F | None:
    reading = facts.read(probe)
    return reading.facts if isinstance(reading, Known) else None


def _read_at(facts: DeviceFacts) -> float | None:
    """Return when the newest of a device's facts was read."""
    known = [reading for readings in facts.readings.values() for reading in readings if isinstance(reading, Known)]
    return max((reading.output.received for reading in known), default=None)


def _machine(cluster: Cluster, name: str, facts: DeviceFacts, bmc: DeviceFacts | None) -> events.MachineListed:
    system, processors = _facts_of(facts, os_release.PROBE), _facts_of(facts, cpu.PROBE)
    space, trained_with = _facts_of(facts, disk.PROBE), _facts_of(facts, torch.PROBE)
    total, gpus = _facts_of(facts, memory.PROBE), _facts_of(facts, gpu.PROBE)
    controller, state = cluster.nodes[name].bmc, _facts_of(bmc, power.PROBE) if bmc else None
    words = (
        plural(processors.cores, "core") if processors and processors.cores else "",
        size(total.total) if total else "",
        (system.title or "") if system else "",
    )
    return events.MachineListed(
        subject=name,
        message=", ".join(word for word in words if word) or "not read yet",
        host=cluster.nodes[name].host,
        read=_read_at(facts),
        system=system.title or system.distribution if system else None,
        kernel=system.kernel if system else None,
        architecture=system.architecture if system else None,
        hypervisor=processors.hypervisor if processors else None,
        processor=processors.model if processors else None,
        sockets=processors.sockets if processors else None,
        cores=processors.cores if processors else None,
        threads=processors.threads if processors else None,
        memory_bytes=total.total if total else None,
        workdir_bytes=space.total_bytes if space else None,
        workdir_free_bytes=space.free_bytes if space else None,
        python=trained_with.python if trained_with else None,
        torch=trained_with.torch if trained_with else None,
        torch_build=trained_with.build if trained_with and trained_with.torch else None,
        gpu_driver=_driver_of(gpus) if gpus else None,
        gpu_cuda=gpus.cuda if gpus else None,
        bmc=controller.host if controller else None,
        power=state.power if state else None,
    )


def _driver_of(gpus: Gpus) -> str | None:
    return gpus.module or next((installed.driver for installed in gpus.gpus), None)


def _node_port(cluster: Cluster, node: str, port: Port, facts: DeviceFacts) -> events.NodePortListed:
    links, settings = _facts_of(facts, ip_link.PROBE), _facts_of(facts, ethtool.PROBE)
    drivers, rdma = _facts_of(facts, ethtool_driver.PROBE), _facts_of(facts, infiniband.PROBE)
    link = links.links.get(port.netdev) if links else None
    ethernet = settings.interfaces.get(port.netdev) if settings else None
    driver = drivers.interfaces.get(port.netdev) if drivers else None
    device = rdma.devices.get(port.rdma or "") if rdma else None
    rate = device.ports.get(str(port.rdma_port)) if device else None
    mbps = ethernet.speed_mbps if ethernet else None
    firmware = (device.fw_ver if device else None) or (driver.firmware if driver else None)
    card = _card(device)
    return events.NodePortListed(
        subject=f"{node}/{port.netdev}",
        message=", ".join(filter(None, (card, f"firmware {firmware}" if firmware else ""))),
        rail=port.rail,
        address=str(port.address),
        far_end=far_end(cluster, node, port),
        mac=link.address if link else None,
        mtu=link.mtu if link else None,
        state=link.state if link else None,
        speed_gbps=mbps / 1000 if mbps else rate.rate_gbps if rate else None,
        rdma=port.rdma,
        card=card,
        driver=(driver.driver if driver else None) or (device.driver if device else None),
        firmware=firmware,
        pci=(device.pci if device else None) or (driver.bus if driver else None),
    )


def _card(device: RdmaDevice | None) -> str | None:
    """Return the type of a card and its board; Soft-RoCE has neither."""
    if device is None:
        return None
    if device.parent:
        return "Soft-RoCE"
    board = f"({device.board_id})" if device.board_id else ""
    return " ".join(filter(None, (device.hca_type, board))) or None


def _gpus(cluster: Cluster, node: str, facts: DeviceFacts) -> Iterator[events.GpuListed]:
    gpus = _facts_of(facts, gpu.PROBE)
    if gpus is None:
        for index, stated in enumerate(cluster.nodes[node].gpus):
            stated_bytes = int(stated.memory_gb * 10**9) if stated.memory_gb is not None else None
            yield events.GpuListed(
                subject=f"{node}/gpu{index}",
                message="as the cluster file has it: not read yet",
                model=stated.name,
                memory_bytes=stated_bytes,
            )
        return
    for installed in gpus.gpus:
        yield _gpu(node, installed, gpus.cuda)


def _gpu(node: str, installed: InstalledGpu, cuda: str | None) -> events.GpuListed:
    words = (
        installed.name,
        size(installed.memory_bytes) if installed.memory_bytes is not None else "",
        f"{installed.temperature_celsius} °C" if installed.temperature_celsius is not None else "",
    )
    return events.GpuListed(
        subject=f"{node}/gpu{installed.index}",
        message=", ".join(word for word in words if word),
        model=installed.name,
        memory_bytes=installed.memory_bytes,
        temperature_celsius=installed.temperature_celsius,
        power_watts=installed.power_watts,
        power_limit_watts=installed.power_limit_watts,
        ecc=installed.ecc,
        uncorrected_errors=installed.uncorrected_errors,
        compute_capability=installed.compute_capability,
        driver=installed.driver,
        cuda=cuda,
    )


def _disks(node: str, facts: DeviceFacts) -> Iterator[events.DiskListed]:
    known = _facts_of(facts, block_devices.PROBE)
    for device in known.disks if known else ():
        yield events.DiskListed(
            subject=f"{node}/{device.name}",
            message=", ".join(filter(None, (device.model, size(device.size_bytes)))),
            size_bytes=device.size_bytes,
            model=device.model,
            rotational=device.rotational,
            transport=device.transport,
        )


def _switch(name: str, switch: Switch, facts: DeviceFacts) -> events.SwitchListed:
    known = _facts_of(facts, version.PROBE)
    return events.SwitchListed(
        subject=name,
        message=f"{known.chassis}, NX-OS {known.release}" if known else "not read yet",
        host=switch.host or "",
        read=_read_at(facts),
        model=known.chassis if known else None,
        release=known.release if known else None,
        hostname=known.hostname if known else None,
        serial=known.serial if known else None,
    )


def _switch_port(name: str, port: SwitchPort, facts: DeviceFacts) -> events.SwitchPortListed:
    interfaces, transceivers = _facts_of(facts, interface.PROBE), _facts_of(facts, transceiver.PROBE)
    state = _of_port(interfaces.ports, port.name) if interfaces else None
    mbps = state.speed_mbps if state else None
    words = (
        "" if state is None else "up" if state.up else "down",
        f"{mbps / 1000:g} Gb/s" if mbps else "",
    )
    return events.SwitchPortListed(
        subject=f"{name} {port.name}",
        message=", ".join(word for word in words if word) or "not read yet",
        node=port.node,
        interface=port.netdev,
        up=state.up if state else None,
        speed_gbps=mbps / 1000 if mbps else None,
        mtu=state.mtu if state else None,
        transceiver=_describe_part(_of_port(transceivers.ports, port.name)) if transceivers else None,
    )


def _of_port(ports: Mapping[str, V], name: str) -> V | None:
    return next((value for key, value in ports.items() if port_key(key) == port_key(name)), None)


def _describe_part(part: Transceiver | None) -> str:
    if part is None:
        return "none"
    return " ".join(filter(None, (part.vendor, part.part, f"({part.type})" if part.type else ""))) or "unnamed"
