"""Congestion control of a port, from OFED's sysfs (by interface) or the inbox driver's debugfs (by PCI address)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from railbed.check.shared.card import Ability, card_of
from railbed.check.shared.rdma import rdma_device
from railbed.model.probe import Probe
from railbed.probes import dcqcn, infiniband, pcie
from railbed.probes.dcqcn import Ecn
from railbed.rules.judgement import Judgement, skip, unknown
from railbed.rules.site import PortView

CONGESTION_PROBES: tuple[Probe[Any], ...] = (dcqcn.PROBE, infiniband.PROBE, pcie.PROBE)
"""What `congestion_of` reads."""


@dataclass(frozen=True, slots=True)
class Congestion:
    """What the driver shows; both parts may be missing."""

    ofed: Ecn | None
    inbox: dict[str, int | None]
    folder: str
    """Folder of the parameters on the node."""

    @property
    def cnp_dscp(self) -> int | None:
        """The DSCP of congestion notification packets."""
        return self.ofed.parameters.get("np_cnp_dscp") if self.ofed else self.inbox.get("np_cnp_dscp")


def dcqcn_obstacle(port: PortView, expected: str) -> Judgement | None:
    """Explain why congestion control is not judged: the card does not support it."""
    lacking = card_of(port).lacks(Ability.DCQCN)
    return skip(lacking, expected=expected) if lacking else None


def not_shown(port: PortView, expected: str) -> Judgement:
    """Return that the port's driver shows nothing, and where drivers show it."""
    where = f"OFED has /sys/class/net/{port.port.netdev}/ecn; the inbox mlx5 driver has cc_params in debugfs, for root"
    return unknown(expected=expected, observed="the driver shows no congestion control", remedy=where)


def congestion_of(port: PortView) -> Congestion | None:
    """Return what the port's driver shows, or None if it shows nothing; unread facts end as unknown."""
    facts = port.read(dcqcn.PROBE)
    netdev = port.port.netdev
    if netdev in facts.interfaces:
        return Congestion(facts.interfaces[netdev], {}, f"/sys/class/net/{netdev}/ecn")
    address = _pci_address(port)
    if address in facts.cards:
        return Congestion(None, facts.cards[address], f"/sys/kernel/debug/mlx5/{address}/cc_params")
    return None


def _pci_address(port: PortView) -> str:
    device = rdma_device(port)
    if device and device.pci:
        return device.pci
    cards = port.node.try_read(pcie.PROBE)
    if cards is None:
        return ""
    return next((address for address, card in cards.cards.items() if port.port.netdev in card.netdevs), "")
