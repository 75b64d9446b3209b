"""Which kind of card a port has, and what that kind does not support: rules skip with the reason instead of failing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

from railbed.check.shared.port import rdma_device, rdma_name
from railbed.model.probe import Probe
from railbed.parsing.gids import RoceVersion, common_version, types_of_address
from railbed.probes import counter_names, dcb_app, dcb_buffer, dcb_ets, dcb_pfc, infiniband
from railbed.probes.infiniband import RdmaDevice
from railbed.rules.site import PortView

CARD_PROBES: tuple[Probe[Any], ...] = (infiniband.PROBE, counter_names.PROBE)
"""The probes of `card_of`: part of `needs` of every rule that calls it."""


class Ability(Enum):
    """A capability of cards."""

    PFC = "PFC"
    DSCP_TRUST = "DSCP trust"
    ETS = "traffic classes"
    BUFFERS = "receive buffers"
    DCQCN = "DCQCN"
    ECN_COUNTERS = "ECN counters"
    OWN_RATE = "its own rate"
    FIRMWARE = "firmware"


SOFT_ROCE = {
    Ability.PFC: "Soft-RoCE is software: it has no PFC",
    Ability.DSCP_TRUST: "Soft-RoCE is software: it has no DSCP trust",
    Ability.ETS: "Soft-RoCE is software: it has no traffic classes",
    Ability.BUFFERS: "Soft-RoCE is software: it has no receive buffers",
    Ability.DCQCN: "Soft-RoCE has no congestion control (DCQCN)",
    Ability.ECN_COUNTERS: "Soft-RoCE does not count ECN marks or CNPs",
    Ability.OWN_RATE: "Soft-RoCE has no rate",
    Ability.FIRMWARE: "Soft-RoCE has no firmware",
}
IWARP = {
    Ability.DSCP_TRUST: "iWARP runs over TCP: no RoCE priority",
    Ability.PFC: "iWARP runs over TCP: it needs no PFC",
    Ability.ETS: "iWARP runs over TCP: no RoCE priority",
    Ability.BUFFERS: "iWARP runs over TCP: no RoCE priority",
    Ability.DCQCN: "iWARP runs over TCP: no DCQCN",
    Ability.ECN_COUNTERS: "iWARP runs over TCP: no CNPs to count",
}
LACKS: dict[str | None, dict[Ability, str]] = {
    "rxe": SOFT_ROCE,
    "iwarp": IWARP,
    "siw": IWARP
    | {
        Ability.OWN_RATE: "Soft-iWARP has no rate",
        Ability.FIRMWARE: "Soft-iWARP has no firmware",
    },
    "mlx4": {
        Ability.DSCP_TRUST: "ConnectX-3 cannot trust DSCP",
        Ability.BUFFERS: "ConnectX-3 does not show its receive buffers",
        Ability.DCQCN: "ConnectX-3 has no DCQCN",
        Ability.ECN_COUNTERS: "ConnectX-3 does not count ECN marks or CNPs",
    },
}
ON_INFINIBAND = {
    Ability.PFC: "InfiniBand link: it has credits, not PFC",
    Ability.DSCP_TRUST: "InfiniBand link: no DSCP",
    Ability.ETS: "InfiniBand link: it has virtual lanes, not traffic classes",
    Ability.BUFFERS: "InfiniBand link: it has virtual lanes, not priorities",
    Ability.DCQCN: "InfiniBand link: no DCQCN",
    Ability.ECN_COUNTERS: "InfiniBand link: no CNPs",
}
ON_ROCE_V1 = {
    Ability.DSCP_TRUST: "RoCE v1 on this rail: its packets have no DSCP",
    Ability.DCQCN: "RoCE v1 on this rail: its packets cannot be marked with ECN",
}
FAMILY_OF_DRIVER = {
    "mlx4_core": "mlx4",
    "mlx5_core": "mlx5",
    "bnxt_en": "bnxt_re",
    "bnxt_re": "bnxt_re",
    "ionic": "ionic",
    "ice": "irdma",
    "i40e": "irdma",
}
DCB_PROBES: dict[Ability, Probe[Any]] = {
    Ability.PFC: dcb_pfc.PROBE,
    Ability.DSCP_TRUST: dcb_app.PROBE,
    Ability.ETS: dcb_ets.PROBE,
    Ability.BUFFERS: dcb_buffer.PROBE,
}
CONNECTX_3 = (4099, 4100, 4103)
FIRST_MLX5 = 4113


@dataclass(frozen=True, slots=True)
class Card:
    """The card behind a port."""

    family: str | None
    """mlx4, mlx5, bnxt_re, ionic, irdma, rxe, siw, iwarp, other; None if unknown."""
    infiniband_link: bool = False
    interface_abilities: frozenset[Ability] = frozenset()
    """What `dcb` shows on the network interface, which Soft-RoCE sends through."""
    roce_v1: bool = False
    """The rail uses RoCE v1, since one of its cards has nothing else."""

    def lacks(self, ability: Ability) -> str:
        """Return why the card cannot do something; empty if it can, or if nothing shows that it cannot."""
        if self.infiniband_link and ability in ON_INFINIBAND:
            return ON_INFINIBAND[ability]
        if self.family == "rxe" and ability in self.interface_abilities:
            return ""
        own = LACKS.get(self.family, {}).get(ability, "")
        return own or (ON_ROCE_V1.get(ability, "") if self.roce_v1 else "")


def card_of(port: PortView) -> Card:
    """Identify the card by its driver and chip, else by the names of its counters; never by its name."""
    device = rdma_device(port)
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    family = (_family(device) if device else None) or _family_of_counters(port)
    is_infiniband = own is not None and own.link_layer == "InfiniBand"
    return Card(
        family=family,
        infiniband_link=is_infiniband,
        interface_abilities=_interface_abilities(port),
        roce_v1=rail_version(port) == 1,
    )


def rail_version(port: PortView) -> RoceVersion:
    """Return the RoCE version that RDMA uses on the port's rail."""
    return common_version(port.on_rail(_gid_types))


def _gid_types(port: PortView) -> frozenset[str] | None:
    device = rdma_device(port)
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    return types_of_address(own.gids, port.port.address) if own else None


def _interface_abilities(port: PortView) -> frozenset[Ability]:
    """Return what the kernel sets on the interface itself, as far as a rule has it read."""
    shown = {ability: port.node.try_read(probe) for ability, probe in DCB_PROBES.items()}
    return frozenset(ability for ability, facts in shown.items() if facts and port.port.netdev in facts.interfaces)


def _family(device: RdmaDevice) -> str | None:
    if device.node_type == "RNIC":
        return "iwarp" if device.driver else "siw"
    if device.parent:
        return "rxe"
    if device.driver:
        return FAMILY_OF_DRIVER.get(device.driver, "other")
    chip = re.fullmatch(r"MT(\d{4,5})", device.hca_type or "")
    if not chip:
        return None
    return "mlx4" if int(chip[1]) in CONNECTX_3 else "mlx5" if int(chip[1]) >= FIRST_MLX5 else None


def _family_of_counters(port: PortView) -> str | None:
    facts = port.node.try_read(counter_names.PROBE)
    names = facts.ports.get(rdma_name(port)) if facts else None
    return names.family if names else None
