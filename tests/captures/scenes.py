"""A network in trouble, as two nodes record it: congestion with notifications that a sender obeys, and lost packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.captures import files
from tests.captures.exchange import Network, Transfer
from tests.captures.flows import CE, Flow, in_order
from tests.captures.truth import START, Packet

MILLISECOND = 1_000_000
CONGESTED = range(START + 20 * MILLISECOND, START + 24 * MILLISECOND)
END = START + 60 * MILLISECOND
CLUSTER = """name: lab
rails: {rail0: {subnet: 10.0.0.0/24, speed: 10}}
nodes:
  node1: {host: node1, ports: [{rail: rail0, netdev: ens1, address: 10.0.0.1}]}
  node2: {host: node2, ports: [{rail: rail0, netdev: ens1, address: 10.0.0.2}]}
policy: {dscp: 26, priority: 3, ecn: true}
"""
"""A cluster file that names both ports."""


def obedient_stream() -> list[Packet]:
    """Return a stream whose sender halves its rate when notifications arrive, and recovers after 8 ms."""
    flow = Flow(qp=0x31, reverse_qp=0x32)
    packets: list[Packet] = []
    while flow.time < END:
        slow = CONGESTED.start + 100_000 <= flow.time < CONGESTED.stop + 8 * MILLISECOND
        flow.gap = 40_000 if slow else 20_000
        packets += flow.write(8 * flow.mtu)
        packets.append(flow.ack())
    notices = [replace(flow.notify(), time=time) for time in CONGESTED[::100_000]]
    return [*packets, *notices]


def losing_stream() -> tuple[list[Packet], list[Packet]]:
    """Return a stream on another queue pair, and those of its packets that get lost."""
    transfer = Transfer(Flow(qp=0x41, reverse_qp=0x42, gap=2000, time=START + 10 * MILLISECOND))
    transfer.send(400, [50, 120, 121, 300])
    return transfer.packets, [transfer.packets[place] for place in sorted(transfer.lost)]


def troubled_network(*, offset: int = 0) -> tuple[list[Packet], list[Packet]]:
    """Return what both nodes record; the clock of the second is so many nanoseconds ahead."""
    losing, lost = losing_stream()
    packets = in_order(obedient_stream(), losing)
    places = {place for place, packet in enumerate(packets) if any(packet is gone for gone in lost)}
    return Network(lost=places, offset=offset, rewrite=_through_a_full_queue).packets_at_ends(packets)


def _through_a_full_queue(packet: Packet) -> Packet:
    return replace(packet, tos=packet.tos | CE) if packet.qp == 0x31 and packet.time in CONGESTED else packet


def write_files(folder: Path, ends: Sequence[Sequence[Packet]] | None = None, *, snap: int = 96) -> list[Path]:
    """Write the recording of each node as a pcap file."""
    paths = []
    for number, packets in enumerate(ends or troubled_network(offset=3 * MILLISECOND), 1):
        paths.append(folder / f"node{number}.pcap")
        paths[-1].write_bytes(files.pcap(files.records(packets, snap=snap)))
    return paths
