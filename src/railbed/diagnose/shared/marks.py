"""RDMA that a card sent in priority 0: because the packets have no mark, or because the card does not look at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from railbed.diagnose.evidence import PortView
from railbed.diagnose.shared.growth import grew
from railbed.rules.judgement import Span
from railbed.rules.signal import Signal

BUSY = 1e6
"""Bytes per second of RDMA from which priorities are compared."""
LEAST_SECONDS = 3.0
IDLE_SHARE, BUSY_SHARE = 0.05, 0.8
"""Of the RDMA bytes: what the lossless priority carries at most, and priority 0 at least."""


class Unprotected(NamedTuple):
    """An episode in which RDMA was sent in priority 0."""

    span: Span
    rdma: Signal
    default: Signal
    """Priority 0."""
    lossless: Signal
    lossless_queue: float | None
    """Bytes that the switch sent from its lossless queues on the rail; None if that was not measured."""
    total: float


def unprotected(port: PortView) -> Iterator[Unprotected]:
    """Yield the episodes in which the RDMA of a port was in priority 0 instead of the lossless one."""
    rdma, default = port.read("rdma_tx_bytes"), port.read("priority_tx_bytes", "0")
    lossless = port.read("priority_tx_bytes", port.lossless)
    for span in rdma.above(BUSY, least=LEAST_SECONDS):
        total = rdma.total(span)
        if lossless.total(span) < IDLE_SHARE * total and default.total(span) > BUSY_SHARE * total:
            yield Unprotected(span, rdma, default, lossless, _lossless_queue(port, span), total)


def _lossless_queue(port: PortView, span: Span) -> float | None:
    switch_ports = [peer.switch_port for peer in port.peers if peer.switch_port]
    signals = [switch_port.try_read("queue_tx_bytes", port.lossless) for switch_port in switch_ports]
    present = [signal for signal in signals if signal is not None]
    return sum(grew(signal, span) for signal in present) if present else None
