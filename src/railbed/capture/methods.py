"""How the packets of a port can be recorded, which depends on its card: most cards bypass the kernel."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from railbed.model.cluster import Port
from railbed.model.fix import Fix, Persistence, RunStep, as_steps
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.probes import ethtool_driver, ethtool_private, infiniband, tcpdump
from railbed.probes.infiniband import RdmaDevice

PROBES: tuple[Probe[Any], ...] = (infiniband.PROBE, ethtool_driver.PROBE, ethtool_private.PROBE, tcpdump.PROBE)
MethodName = Literal["kernel", "card", "card_flag"]
"""`kernel`: a packet socket on the network interface; `card`: libpcap on the RDMA device, which turns on the card's
sniffer; `card_flag`: the same through a private flag of an old driver."""
SNIFFS = ("mlx5_core", "mlx5_ib")
"""Drivers of ConnectX-4 and newer."""
NO_SNIFFER = {
    "mlx4_core": "ConnectX-3",
    "mlx4_en": "ConnectX-3",
    "bnxt_en": "Broadcom NetXtreme-E",
    "bnxt_re": "Broadcom NetXtreme-E",
    "irdma": "Intel E800",
    "ice": "Intel E800",
    "i40e": "Intel X722",
    "i40iw": "Intel X722",
    "qede": "Marvell FastLinQ",
    "qedr": "Marvell FastLinQ",
    "cxgb4": "Chelsio T6",
    "iw_cxgb4": "Chelsio T6",
    "hns3": "HiSilicon",
    "hns_roce": "HiSilicon",
    "ocrdma": "Emulex OneConnect",
    "be2net": "Emulex OneConnect",
    "efa": "AWS EFA",
    "erdma": "Alibaba ERDMA",
    "mana": "Microsoft MANA",
    "ionic": "AMD Pensando",
}
"""Drivers of cards that send RDMA past the kernel and cannot show it."""
MIRROR = (
    "mirror the switch port of {where} to a machine that records it with tcpdump, and read that file with "
    "`railbed capture --from FILE`"
)
COST = "the card copies every RDMA packet to the processor meanwhile, which slows RDMA down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How to record a port."""

    name: MethodName
    source: str
    """What tcpdump captures on: a network interface or an RDMA device."""
    why: str
    cost: str = ""
    """What it costs the traffic; empty if nothing worth mentioning."""
    fix: Fix | None = None
    """The change that it needs while it records."""

    @property
    def nanoseconds(self) -> bool:
        """Whether times can be recorded in nanoseconds: libpcap has microseconds on an RDMA device."""
        return self.name != "card"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMethod:
    """Why a port cannot be recorded, and what to do instead."""

    why: str
    remedy: str
    no_tcpdump: bool = False


def choose_method(node: str, port: Port, facts: DeviceFacts) -> Method | NoMethod:
    """Choose how to record a port, from the facts about its node."""
    tool = facts.read(tcpdump.PROBE)
    if isinstance(tool, Unknown):
        return NoMethod(why=tool.reason, remedy=tool.remedy, no_tcpdump=True)
    devices = facts.read(infiniband.PROBE)
    if isinstance(devices, Unknown):
        return NoMethod(why=f"its RDMA device is unknown: {devices.reason}", remedy=devices.remedy)
    device = _device(port, devices.facts.devices)
    where = f"{node}/{port.netdev}"
    if device is None:
        return _without_device(port, facts, where)
    if _is_software(device):
        return _software(port, device)
    if _link_layer(port, device) == "InfiniBand":
        return NoMethod(
            why=f"{device.name} is an InfiniBand port: it sends no RoCE packets",
            remedy="record InfiniBand with the vendor's ibdump",
        )
    return _hardware(node, port, device, facts, can_sniff=device.name in tool.facts.rdma, libpcap=tool.facts.libpcap)


def _is_software(device: RdmaDevice) -> bool:
    """Whether the kernel itself sends the packets: Soft-RoCE names its interface, Soft-iWARP has nothing of a card."""
    parts = (device.driver, device.pci, device.fw_ver, device.board_id, device.hca_type)
    return device.parent is not None or not any(parts)


def software_ports(ports: Iterable[tuple[str, Port]], facts: Mapping[str, DeviceFacts]) -> dict[tuple[str, str], bool]:
    """Return whether the kernel itself sends the RDMA packets of ports, by node and interface, where that is known."""
    shown = {}
    for node, port in ports:
        reading = facts[node].read(infiniband.PROBE) if node in facts else None
        device = _device(port, reading.facts.devices) if isinstance(reading, Known) else None
        if device:
            shown[node, port.netdev] = _is_software(device)
    return shown


def _software(port: Port, device: RdmaDevice) -> Method:
    if device.node_type == "RNIC":
        why = f"{device.name} is software and uses TCP (iWARP): only RoCE packets of others are recorded"
    else:
        why = f"{device.name} is software (Soft-RoCE): the kernel sees all its packets"
    return Method(name="kernel", source=port.netdev, why=why)


def _without_device(port: Port, facts: DeviceFacts, where: str) -> Method | NoMethod:
    """Judge a port without an RDMA device: the kernel sees all it sends, unless its card has hidden a device."""
    driver = _driver(port, facts)
    if port.rdma:
        return NoMethod(
            why=f"the node has no RDMA device {port.rdma}",
            remedy="`railbed check rdma_device` explains what is missing",
        )
    if driver in SNIFFS or driver in NO_SNIFFER:
        return NoMethod(
            why=f"its driver {driver} may send RDMA past the kernel, and the cluster file names no RDMA device",
            remedy=f"add `rdma:` to the port in the cluster file, or {MIRROR.format(where=where)}",
        )
    return Method(name="kernel", source=port.netdev, why="it has no RDMA device: the kernel sees all its packets")


def _hardware(
    node: str, port: Port, device: RdmaDevice, facts: DeviceFacts, *, can_sniff: bool, libpcap: str | None
) -> Method | NoMethod:
    driver = device.driver or _driver(port, facts) or "unknown"
    remedy = MIRROR.format(where=f"{node}/{port.netdev}")
    if driver in NO_SNIFFER:
        return NoMethod(
            why=f"{NO_SNIFFER[driver]} ({driver}) sends RDMA past the kernel, without a sniffer", remedy=remedy
        )
    if driver not in SNIFFS:
        return NoMethod(why=f"railbed does not know whether the driver {driver} can show RDMA packets", remedy=remedy)
    if can_sniff:
        return Method(
            name="card",
            source=device.name,
            why=f"the card's sniffer, through libpcap {libpcap or ''}".strip(),
            cost=COST,
        )
    if (is_on := _sniffer_flag(port, facts)) is not None:
        fix = None if is_on else _flag_fix(node, port.netdev)
        return Method(
            name="card_flag", source=port.netdev, why="the card's sniffer, by the driver's flag", cost=COST, fix=fix
        )
    return NoMethod(
        why=f"libpcap {libpcap or 'of this machine'} cannot use the card's sniffer, and the driver has no flag for it",
        remedy=f"install a libpcap of at least 1.9 that was built with RDMA (`tcpdump -D` then lists {device.name}), "
        f"or {remedy}",
    )


def _flag_fix(node: str, netdev: str) -> Fix:
    flag = f"ethtool --set-priv-flags {shlex.quote(netdev)} sniffer"
    return Fix(
        device=node,
        apply=as_steps(f"{flag} on"),
        undo=(RunStep(command=f"{flag} off"),),
        persistence=Persistence.BOOT,
    )


def _device(port: Port, devices: dict[str, RdmaDevice]) -> RdmaDevice | None:
    """Return the port's RDMA device: the one in the cluster file, or else the one whose addresses are the port's."""
    if port.rdma:
        return devices.get(port.rdma)
    for device in devices.values():
        gids = (gid for own in device.ports.values() for gid in own.gids)
        if device.parent == port.netdev or any(gid.netdev == port.netdev for gid in gids):
            return device
    return None


def _link_layer(port: Port, device: RdmaDevice) -> str | None:
    own = device.ports.get(str(port.rdma_port))
    return own.link_layer if own else None


def _driver(port: Port, facts: DeviceFacts) -> str | None:
    reading = facts.read(ethtool_driver.PROBE)
    known = reading.facts.interfaces.get(port.netdev) if isinstance(reading, Known) else None
    return known.driver if known else None


def _sniffer_flag(port: Port, facts: DeviceFacts) -> bool | None:
    """Whether the driver's flag is on; None if it has none."""
    reading = facts.read(ethtool_private.PROBE)
    return reading.facts.interfaces.get(port.netdev, {}).get("sniffer") if isinstance(reading, Known) else None
