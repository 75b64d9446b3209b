"""Conversations of two queue pairs: messages cut into packets, acknowledgements, retransmissions, notifications."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from railbed.capture.packets import Bit
from tests.captures.truth import START, Packet, cnp

WRAP = 1 << 24
CE = 3
SEND, WRITE = 0x00, 0x06
"""The first opcodes of both kinds of message: First, Middle, Last and Only follow in fixed order."""
LAST, ONLY = 2, 4
MIDDLE = 1


@dataclass
class Flow:
    """One direction of a reliable connection; the clock advances by `gap` with every packet."""

    source: str = "10.0.0.1"
    destination: str = "10.0.0.2"
    qp: int = 0x11
    """The destination's queue pair."""
    reverse_qp: int = 0x22
    """The queue pair of the source, to which acknowledgements and notifications go."""
    psn: int = 0
    tos: int = 0x6A
    source_port: int = 0xC350
    mtu: int = 1024
    time: int = START
    gap: int = 1000
    common: dict[str, Any] = field(default_factory=dict)
    """Fields of every packet of the flow: tags, mirrored, …"""
    msn: int = 0

    def packet(self, opcode: int, **known: Any) -> Packet:
        """Return the next packet of the flow."""
        fixed: dict[str, Any] = {"source": self.source, "destination": self.destination, "qp": self.qp, "tos": self.tos}
        fixed |= {"source_port": self.source_port, "psn": self.psn, "time": self.time, "opcode": opcode}
        self.psn = (self.psn + 1) % WRAP
        self.time += self.gap
        return Packet(**(fixed | self.common | known))

    def write(self, length: int, *, first: int = WRITE, **known: Any) -> list[Packet]:
        """Return a message as an RDMA write (or send), cut by the MTU; its last packet requests an acknowledgement."""
        sizes = [self.mtu] * (length // self.mtu) + ([length % self.mtu] if length % self.mtu or not length else [])
        packets = []
        for place, size in enumerate(sizes):
            final = place == len(sizes) - 1
            step = MIDDLE if place else 0
            if final:
                step = LAST if place else ONLY
            bits = int(Bit.ACK_REQUEST) if final else 0
            described = {"payload": size, "message": length, "bits": bits}
            packets.append(self.packet(first + step, **(described | known)))
        self.msn = (self.msn + 1) % WRAP
        return packets

    def send(self, length: int, **known: Any) -> list[Packet]:
        """Return a message as a send."""
        return self.write(length, first=SEND, **known)

    def read(self, length: int, *, delay: int = 5000, **known: Any) -> list[Packet]:
        """Return an RDMA read: its request, and the response, which uses as many sequence numbers as packets."""
        request = self.packet(0x0C, message=length, **known)
        count = max(1, -(-length // self.mtu))
        self.psn = (request.psn + count) % WRAP
        self.msn = (self.msn + 1) % WRAP
        packets, time = [request], request.time + delay
        for place in range(count):
            size = min(self.mtu, length - place * self.mtu)
            opcode = 0x10 if count == 1 else 0x0D if not place else 0x0F if place == count - 1 else 0x0E
            psn = (request.psn + place) % WRAP
            packets.append(self.back(opcode, psn=psn, time=time, payload=size, msn=self.msn))
            time += self.gap
        self.time = max(self.time, time)
        return packets

    def back(self, opcode: int, **known: Any) -> Packet:
        """Return a packet in the other direction, now."""
        fixed: dict[str, Any] = {
            "source": self.destination,
            "destination": self.source,
            "qp": self.reverse_qp,
            "tos": self.tos,
        }
        fixed |= {"source_port": self.source_port, "time": self.time, "opcode": opcode}
        return Packet(**(fixed | self.common | known))

    def ack(self, psn: int | None = None, *, delay: int = 5000, **known: Any) -> Packet:
        """Return the acknowledgement of everything up to a sequence number: the newest, without one."""
        newest = (self.psn - 1) % WRAP if psn is None else psn
        time = self.time - self.gap + delay
        return self.back(0x11, **({"psn": newest, "time": time, "msn": self.msn, "syndrome": 0x1F} | known))

    def nak(self, psn: int, *, reason: int = 0, delay: int = 5000, **known: Any) -> Packet:
        """Return a NAK: 0 sequence error, 1 invalid request, 2 remote access error, 3 remote operational error."""
        return self.ack(psn, delay=delay, syndrome=0x60 | reason, **known)

    def rnr(self, psn: int, *, timer: int = 12, delay: int = 5000, **known: Any) -> Packet:
        """Return a receiver-not-ready NAK."""
        return self.ack(psn, delay=delay, syndrome=0x20 | timer, **known)

    def notify(self, *, delay: int = 5000, **known: Any) -> Packet:
        """Return a congestion notification to the sender of this flow."""
        fixed: dict[str, Any] = {"source": self.destination, "destination": self.source, "qp": self.reverse_qp}
        return cnp(**(fixed | {"time": self.time - self.gap + delay} | self.common | known))

    def repeat(self, packet: Packet, *, delay: int = 0) -> Packet:
        """Return a packet once more, now."""
        again = replace(packet, time=self.time + delay)
        self.time += self.gap
        return again


def marked(packet: Packet) -> Packet:
    """Return a packet as it leaves a full queue: with CE."""
    return replace(packet, tos=packet.tos | CE)


def in_order(*groups: list[Packet]) -> list[Packet]:
    """Return packets by time, as one port records them."""
    return sorted((packet for group in groups for packet in group), key=lambda packet: packet.time)
