"""The PCIe link of the card carries the speed of its port.

What
----
Lanes times speed, less the encoding (a fifth up to 5 GT/s, 2 in 130 bits from 8 GT/s on), is at least the port's speed,
and the card has trained to its own maximum. Ports on rails that share one link, as the two of a card do, are judged
together, too: if it carries each of them but not all at once, the rule warns. On GB10 (DGX Spark and its like) each
network port is two PCI functions, in two slots of 4 lanes: a function is expected to carry half of the port, 100 Gb/s.

Why
---
A 100 Gb/s card in a slot with 8 lanes of 8 GT/s gets 63 Gb/s out of the host. Data that arrives faster waits in the
card, which then pauses the switch: one badly seated card slows the all-reduce of all nodes. Training uses all rails at
the same time, so that two ports of 40 Gb/s behind these 63 Gb/s are not two rails of 40.

Fix
---
Fewer lanes than the card has: reseat it, use a slot with all lanes wired (the board's manual), look at bifurcation
in the BIOS. Lower speed: BIOS setting of the slot, riser cable. `lspci -vv -s ADDRESS` shows LnkCap and LnkSta. Two
ports of a card that already uses all its lanes: expect only what the link carries, or use one port each of two cards.

Source
------
PCI Express Base Specification (encoding); Linux kernel documentation, ABI/testing/sysfs-bus-pci (current_link_speed);
NVIDIA, DGX Spark playbooks (two functions per port, 92 to 112 Gb/s measured on each).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from railbed.check.shared.card import CARD_PROBES
from railbed.check.shared.port import no_rdma, rdma_device, some
from railbed.model.record import WRONG
from railbed.probes import gpu, pcie
from railbed.probes.pcie import PcieCard, PcieCards, carried_gbps, slot_of
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import PortView

GB10_GBPS = 100.0
"""What a PCI function of a GB10 carries: half of a port of 200 Gb/s."""
NO_SHARE = "expect no more than {carried} Gb/s from {ports} together, or use one port each of two cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """The PCIe link of a card, with a speed and a width."""

    card: PcieCard
    speed_gts: float
    width: int

    @property
    def carried(self) -> float:
        return carried_gbps(self.speed_gts, self.width)

    @property
    def best(self) -> tuple[float, int]:
        return self.card.max_speed_gts or self.speed_gts, self.card.max_width or self.width

    @property
    def is_below_best(self) -> bool:
        speed, width = self.best
        return self.speed_gts < speed or self.width < width

    def describe(self, others: str = "") -> str:
        shared = f", shared with {others}" if others else ""
        now = f"{self.speed_gts:g} GT/s x{self.width} = {self.carried:.0f} Gb/s{shared}"
        return f"{now}; card supports {self.best[0]:g} GT/s x{self.best[1]}" if self.is_below_best else now


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the link's bandwidth with the speed of the ports behind it and with the card's maximum."""
    cards = port.read(pcie.PROBE)
    address, card = cards.card_of(port.port.netdev, port.port.rdma)
    if card is None:
        yield skip("no PCIe link: a virtual device")
    elif card.virtual_function:
        yield skip("a virtual function: the host that owns the card has the link")
    elif card.speed_gts is None or card.width is None:
        yield unknown(expected="a PCIe link that carries the port", observed="the card does not report its link")
    else:
        link = _Link(card=card, speed_gts=card.speed_gts, width=card.width)
        judgement = _judge_link(port, link, _sharing(port, cards, address))
        remedy = judgement.remedy or RULE.fix.replace("ADDRESS", address or "ADDRESS")
        yield replace(judgement, remedy=remedy) if judgement.verdict in WRONG else judgement


def _judge_link(port: PortView, link: _Link, sharing: list[PortView]) -> Judgement:
    needed, halves = _port_speed(port), _is_gb10(port)
    if needed and halves:
        needed = min(needed, GB10_GBPS)
    expected = f"PCIe for {needed:g} Gb/s" if needed else "PCIe at the card's maximum"
    if needed and link.carried < needed:
        return fail(expected=expected, observed=link.describe())
    if halves and not link.is_below_best:
        # Functions of both ports share a slot by design: there is no other.
        return ok(expected=expected, observed=f"{link.describe()}, for half of a GB10's port")
    speeds = [_port_speed(other) for other in (port, *sharing)]
    together = sum(speed for speed in speeds if speed)
    if sharing and link.carried < together:
        return _too_narrow_together(port, link, sharing, together)
    if link.is_below_best:
        return warn(expected=expected, observed=link.describe())
    return ok(expected=expected, observed=link.describe())


def _too_narrow_together(port: PortView, link: _Link, sharing: list[PortView], together: float) -> Judgement:
    """Each port has its speed alone: whether another slot helps depends on the card's own maximum."""
    others = some(other.port.netdev for other in sharing)
    is_widest = not link.is_below_best
    ports = some([port.port.netdev, *(other.port.netdev for other in sharing)])
    return warn(
        expected=f"PCIe for {together:g} Gb/s of {len(sharing) + 1} ports",
        observed=link.describe(others),
        remedy=NO_SHARE.format(carried=f"{link.carried:.0f}", ports=ports) if is_widest else "",
    )


def _sharing(port: PortView, cards: PcieCards, address: str) -> list[PortView]:
    """Return the other ports of the node that send over the same link: of the same card, in the same slot.

    Interfaces on one port of a card, such as VLANs, are that port.
    """
    wires = {(port.port.rdma, port.port.rdma_port)}
    sharing = []
    for other in port.node.ports:
        wire = (other.port.rdma, other.port.rdma_port)
        if other.port.rdma is None or wire in wires:
            continue
        other_address, card = cards.card_of(other.port.netdev, other.port.rdma)
        if card is not None and not card.virtual_function and slot_of(other_address) == slot_of(address):
            wires.add(wire)
            sharing.append(other)
    return sharing


def _is_gb10(port: PortView) -> bool:
    gpus = port.node.try_read(gpu.PROBE)
    return gpus is not None and gpus.is_gb10


def _port_speed(port: PortView) -> float | None:
    device = rdma_device(port)
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    return port.rail.speed or (own.rate_gbps if own else None)


def _by_hand(port: PortView) -> Iterator[HandStep]:
    yield HandStep(
        port.subject, "seat its card in a slot with all lanes wired; set the slot's speed to automatic in the BIOS"
    )


RULE = Rule(
    name="pcie_bandwidth",
    title="PCIe carries the port's speed",
    scope="RDMA port",
    stage="BIOS",
    needs=(pcie.PROBE, gpu.PROBE, *CARD_PROBES),
    judge=judge,
    by_hand=_by_hand,
    unless=no_rdma,
    doc=__doc__,
)
