"""The PCIe link of the card carries the speed of its port.

What
----
Lanes times speed, less the encoding (a fifth up to 5 GT/s, 2 in 130 bits from 8 GT/s on), is at least the port's speed,
and the card has trained to its own maximum.

Why
---
A 100 Gb/s card in a slot with 8 lanes of 8 GT/s gets 63 Gb/s out of the host. Data that arrives faster waits in the
card, which then pauses the switch: one badly seated card slows the all-reduce of all nodes.

Fix
---
Fewer lanes than the card has: reseat it, use a slot with all lanes wired (the board's manual), look at bifurcation
in the BIOS. Lower speed: BIOS setting of the slot, riser cable. `lspci -vv -s ADDRESS` shows LnkCap and LnkSta.

Source
------
PCI Express Base Specification (encoding); Linux kernel documentation, ABI/testing/sysfs-bus-pci (current_link_speed).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from railbed.check.shared.card import CARD_PROBES
from railbed.check.shared.port import no_rdma, rdma_device
from railbed.model.record import WRONG
from railbed.probes import pcie
from railbed.probes.pcie import PcieCard, carried_gbps
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the link's bandwidth with the port's speed and with the card's maximum."""
    address, card = _card(port)
    if card is None:
        yield skip("no PCIe link: a virtual device")
    elif card.virtual_function:
        yield skip("a virtual function: the host that owns the card has the link")
    elif card.speed_gts is None or card.width is None:
        yield unknown(expected="a PCIe link that carries the port", observed="the card does not report its link")
    else:
        judgement = _judge_link(port, card, card.speed_gts, card.width)
        yield (
            replace(judgement, remedy=RULE.fix.replace("ADDRESS", address)) if judgement.verdict in WRONG else judgement
        )


def _judge_link(port: PortView, card: PcieCard, speed_gts: float, width: int) -> Judgement:
    carried, needed = carried_gbps(speed_gts, width), _port_speed(port)
    expected = f"PCIe for {needed:g} Gb/s" if needed else "PCIe at the card's maximum"
    now = f"{speed_gts:g} GT/s x{width} = {carried:.0f} Gb/s"
    best_speed, best_width = card.max_speed_gts or speed_gts, card.max_width or width
    below = speed_gts < best_speed or width < best_width
    observed = f"{now}; card supports {best_speed:g} GT/s x{best_width}" if below else now
    if needed and carried < needed:
        return fail(expected=expected, observed=observed)
    return warn(expected=expected, observed=observed) if below else ok(expected=expected, observed=observed)


def _card(port: PortView) -> tuple[str, PcieCard | None]:
    """Return the port's card with its PCI address, or what stands for that."""
    cards = port.read(pcie.PROBE).cards.items()
    netdev, rdma = port.port.netdev, port.port.rdma
    return next(
        ((address or "ADDRESS", card) for address, card in cards if netdev in card.netdevs or rdma in card.rdma),
        ("", None),
    )


def _port_speed(port: PortView) -> float | None:
    device = rdma_device(port)
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    return port.rail.speed or (own.rate_gbps if own else None)


RULE = Rule(
    name="pcie_bandwidth",
    title="PCIe carries the port's speed",
    scope="port",
    needs=(pcie.PROBE, *CARD_PROBES),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
