"""Decode the headers of many packets with numpy: from the link to the IP header, and from there to the UDP header."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files import layers
from railbed.capture.files.addresses import AddressTable
from railbed.capture.files.layers import Frames, LinkType, Reason
from railbed.capture.files.source import Buffer
from railbed.capture.files.transport import decode_transport
from railbed.capture.packets import NO_VLAN, Kind

TRANSPORT_NEEDS = layers.UDP_HEADER.itemsize + layers.BTH_BYTES + 28
LINK_HEADERS = {LinkType.ETHERNET: (14, 12, 6), LinkType.COOKED: (16, 14, 6), LinkType.COOKED2: (20, 0, 12)}
"""The length of the header, and where the ethertype and the sender's address are."""
WORD = np.dtype(">u2")
BYTE = np.dtype("u1")
NATIVE_WORD = np.dtype("u2")
FRAGMENT_OFFSET, MORE_FRAGMENTS, ROCE_PORT = (
    np.array([word], WORD).view(NATIVE_WORD)[0]
    for word in (layers.FRAGMENT_OFFSET, layers.MORE_FRAGMENTS, layers.ROCE_PORT)
)
"""For words whose bytes are not swapped, which is faster than swapping those of every packet."""


@dataclass
class Decoded:
    """The packets of one chunk."""

    reasons: NDArray[np.uint8]
    """A Reason for each record of the chunk."""
    groups: list[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]] = field(default_factory=list)
    """Rows of the chunk, and their columns."""
    pauses: list[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]] = field(default_factory=list)
    mirrored: int = 0


class Decoder:
    """Decodes chunks of records of one file."""

    def __init__(self, addresses: AddressTable) -> None:
        self.addresses = addresses

    def decode(
        self, buffer: Buffer, start: NDArray[np.int64], captured: NDArray[np.int64], link: NDArray[np.uint8]
    ) -> Decoded:
        """Decode the packets that begin at these positions."""
        decoded = Decoded(np.zeros(len(start), np.uint8))
        row = np.arange(len(start))
        vlan = np.full(len(start), NO_VLAN, np.uint16)
        frames = Frames.at(buffer, row, start, start + captured, {"vlan": vlan})
        stages = _Stages(self.addresses, decoded)
        while len(frames):
            kind = link[0]
            alike = link == kind
            stages.link(frames.subset(alike), LinkType(int(kind)))
            frames, link = frames.subset(~alike), link[~alike]
        return decoded


@dataclass
class _Stages:
    """Each stage takes packets at a header, and hands them on by what follows it."""

    addresses: AddressTable
    decoded: Decoded
    mirrored: bool = False
    sender: int = 0
    """Where the sender's address is in the header of the link."""

    def reject(self, frames: Frames, mask: NDArray[np.bool_], reason: Reason) -> Frames:
        """Leave packets out for a reason; return the others."""
        if not mask.any():
            return frames
        self.decoded.reasons[frames.row[mask]] = reason
        return frames.subset(~mask)

    def need(self, frames: Frames, size: int) -> Frames:
        """Leave out packets of which not so many bytes more were recorded."""
        return frames if frames.all_have(size) else self.reject(frames, frames.left < size, Reason.CUT_OFF)

    def link(self, frames: Frames, kind: LinkType) -> None:
        """Read the header of the link."""
        if kind is LinkType.UNSUPPORTED:
            self.reject(frames, np.ones(len(frames), bool), Reason.OTHER_LINK)
            return
        if kind is LinkType.RAW:
            frames = self.need(frames, 1)
            version = frames.header(BYTE) >> 4
            known = np.where(version == 4, layers.IPV4, np.where(version == 6, layers.IPV6, 0))
            self.network(frames, known)
            return
        size, place, self.sender = LINK_HEADERS[kind]
        frames = self.need(frames.with_values(link_start=frames.start), size)
        ethertype = frames.header(WORD, place).astype(np.uint16)
        self.tags(frames.behind(size), ethertype)

    def tags(self, frames: Frames, ethertype: NDArray[np.uint16]) -> None:
        """Skip VLAN tags; the first is kept."""
        for _ in range(layers.MOST_TAGS):
            tagged = np.isin(ethertype, layers.VLAN_TAGS) if (ethertype != layers.IPV4).any() else None
            if tagged is None or not tagged.any():
                break
            self.network(frames.subset(~tagged), ethertype[~tagged])
            frames = self.need(frames.subset(tagged), 4)
            vlan = frames.values["vlan"]
            control = frames.header(WORD).astype(np.uint16)
            frames = frames.with_values(vlan=np.where(vlan == NO_VLAN, control, vlan))
            ethertype = frames.header(WORD, 2).astype(np.uint16)
            frames = frames.behind(4, needed=TRANSPORT_NEEDS + 40)
        self.network(frames, ethertype)

    def network(self, frames: Frames, ethertype: NDArray[Any]) -> None:
        """Hand packets on by ethertype."""
        if not len(frames):
            return
        stages = {
            layers.IPV4: self.ipv4,
            layers.IPV6: self.ipv6,
            layers.ROCE1: self.roce1,
            layers.FLOW_CONTROL: self.flow_control,
        }
        for number, stage in stages.items():
            mask = ethertype == number
            if mask.any():
                stage(frames.subset(mask))
                if mask.all():
                    return
                frames, ethertype = frames.subset(~mask), ethertype[~mask]
        self.reject(frames, np.ones(len(frames), bool), Reason.NOT_ROCE)

    def ipv4(self, frames: Frames) -> None:
        """Read IPv4 headers."""
        frames = self.need(frames, 20)
        version = frames.header(BYTE)
        if (version != 0x45).any():
            frames = self.reject(frames, (version < 0x45) | (version > 0x4F), Reason.MALFORMED)
        protocol = frames.header(BYTE, 9)
        if (protocol != layers.UDP).any():
            frames = self.reject(frames, (protocol != layers.UDP) & (protocol != layers.GRE), Reason.NOT_ROCE)
        fragment = frames.header(NATIVE_WORD, 6)
        frames = self.reject(frames, (fragment & FRAGMENT_OFFSET) != 0, Reason.FRAGMENT)
        header = frames.header(layers.IPV4_HEADER)
        fragmented = (frames.header(NATIVE_WORD, 6) & MORE_FRAGMENTS) != 0
        frames = frames.with_values(
            tos=header["tos"],
            addresses=header["addresses"],
            content=header["total"].astype(np.int32) - np.int32(20),
            fragmented=fragmented,
            plain=~fragmented,
        )
        self.transports(self.beyond_options(frames, header["version"]), header["protocol"])

    def beyond_options(self, frames: Frames, version: NDArray[np.uint8]) -> Frames:
        """Return packets behind their IPv4 header, which is longer than 20 bytes if it has options."""
        without = version == 0x45
        if without.all():
            return frames.behind(20, needed=TRANSPORT_NEEDS)
        size = (version & 15).astype(np.int32) * 4
        content, plain = frames.values["content"] + 20 - size, frames.values["plain"] & without
        return frames.with_values(content=content, plain=plain).behind_each(size)

    def ipv6(self, frames: Frames) -> None:
        """Read IPv6 headers and the extension headers behind them."""
        frames = self.need(frames, 40)
        frames = self.reject(frames, frames.header(BYTE) >> 4 != 6, Reason.MALFORMED)
        header = frames.header(layers.IPV6_HEADER)
        protocol = header["following"]
        frames = frames.with_values(
            tos=(header["version"] >> 20).astype(np.uint8),
            source=header["source"],
            destination=header["destination"],
            content=header["payload"].astype(np.int32),
            fragmented=np.zeros(len(frames), bool),
            plain=np.ones(len(frames), bool),
        )
        frames = frames.behind(40, needed=TRANSPORT_NEEDS)
        for _ in range(layers.MOST_EXTENSIONS):
            extended = np.isin(protocol, layers.EXTENSIONS)
            if not extended.any():
                break
            self.transports(frames.subset(~extended), protocol[~extended])
            frames, protocol = self.extension(frames.subset(extended), protocol[extended])
        self.transports(frames, protocol)

    def extension(self, frames: Frames, kind: NDArray[np.uint8]) -> tuple[Frames, NDArray[np.uint8]]:
        """Skip an extension header; return what follows, and its protocol."""
        short = frames.left < 8
        frames, kind = self.reject(frames, short, Reason.CUT_OFF), kind[~short]
        split = kind == layers.FRAGMENT_HEADER
        fragment = frames.header(WORD, 2)
        later = split & (fragment >> 3 != 0)
        more = frames.values["fragmented"] | (split & (fragment & 1 != 0))
        frames = frames.with_values(fragmented=more, plain=np.zeros(len(frames), bool))
        frames, kind = self.reject(frames, later, Reason.FRAGMENT), kind[~later]
        count = frames.header(BYTE, 1).astype(np.int32)
        sizes = np.where(kind == layers.AUTHENTICATION_HEADER, count * 4 + 8, count * 8 + 8)
        sizes[kind == layers.FRAGMENT_HEADER] = 8
        protocol = frames.header(BYTE).copy()
        frames = frames.with_values(content=frames.values["content"] - sizes)
        return frames.behind_each(sizes), protocol

    def transports(self, frames: Frames, protocol: NDArray[np.uint8]) -> None:
        """Hand packets on by the protocol inside IP."""
        if not len(frames):
            return
        udp = protocol == layers.UDP
        if udp.all():
            self.udp(frames)
            return
        gre = protocol == layers.GRE
        if udp.any():
            self.udp(frames.subset(udp))
        if gre.any():
            self.gre(frames.subset(gre))
        self.reject(frames, ~(udp | gre), Reason.NOT_ROCE)

    def udp(self, frames: Frames) -> None:
        """Read UDP headers."""
        frames = self.need(frames, 8)
        frames = self.reject(frames, frames.header(NATIVE_WORD, 2) != ROCE_PORT, Reason.NOT_ROCE)
        length = frames.header(WORD, 4).astype(np.int32)
        bad = length < 8 + layers.BTH_BYTES + layers.ICRC_BYTES
        bad |= (length > frames.values["content"]) & ~frames.values["fragmented"]
        frames = self.reject(frames.with_values(content=length - np.int32(8)), bad, Reason.MALFORMED)
        frames = frames.with_values(source_port=frames.header(WORD))
        self.transport(frames.behind(8), Kind.ROCE2)

    def roce1(self, frames: Frames) -> None:
        """Read global route headers."""
        frames = self.need(frames, 40)
        header = frames.header(layers.IPV6_HEADER)
        bad = (header["version"] >> 28 != 6) | (header["following"] != layers.IB_TRANSPORT)
        bad |= header["payload"] < layers.BTH_BYTES + layers.ICRC_BYTES
        frames = self.reject(frames, bad, Reason.MALFORMED)
        header = frames.header(layers.IPV6_HEADER)
        frames = frames.with_values(
            tos=(header["version"] >> 20).astype(np.uint8),
            source=header["source"],
            destination=header["destination"],
            content=header["payload"].astype(np.int32),
            source_port=np.zeros(len(frames), np.uint16),
            plain=np.ones(len(frames), bool),
        )
        self.transport(frames.behind(40), Kind.ROCE1)

    def transport(self, frames: Frames, kind: Kind) -> None:
        """Read the headers of InfiniBand's transport."""
        frames = self.need(frames, layers.BTH_BYTES)
        pad = frames.header(BYTE, 1) >> 4 & 3
        headers = layers.TRANSPORT_BYTES[frames.header(BYTE)]
        payload = frames.values["content"] - headers - pad - layers.ICRC_BYTES
        frames = self.reject(frames.with_values(payload=payload, headers=headers), payload < 0, Reason.MALFORMED)
        if len(frames):
            self.decoded.mirrored += len(frames) if self.mirrored else 0
            self.decoded.groups.append((frames.row, decode_transport(frames, kind, self.addresses)))

    def flow_control(self, frames: Frames) -> None:
        """Read pause frames; `vlan` and the sender are those of the link's header."""
        frames = self.need(frames, 4)
        opcode = frames.header(WORD)
        per_class, everything = opcode == layers.PFC_OPCODE, opcode == layers.PAUSE_OPCODE
        frames = self.reject(frames, ~(per_class | everything), Reason.NOT_ROCE)
        per_class = frames.header(WORD) == layers.PFC_OPCODE
        frames = self.reject(frames, per_class & (frames.left < layers.PAUSE.itemsize), Reason.CUT_OFF)
        if len(frames):
            self.decoded.pauses.append((frames.row, _pause_columns(frames, self.sender)))
            self.decoded.mirrored += len(frames) if self.mirrored else 0

    def gre(self, frames: Frames) -> None:
        """Unwrap what a switch mirrored with ERSPAN; once, not repeatedly."""
        if self.mirrored:
            self.reject(frames, np.ones(len(frames), bool), Reason.NOT_ROCE)
            return
        frames = self.need(frames, 4)
        header = frames.header(layers.GRE_HEADER)
        spans = (header["kind"] == layers.ERSPAN2) | (header["kind"] == layers.ERSPAN3)
        frames = self.reject(frames, ~spans | (header["flags"] & 0x4007 != 0), Reason.NOT_ROCE)
        header = frames.header(layers.GRE_HEADER)
        flags = header["flags"].astype(np.int64)
        size = 4 + 4 * (flags >> 15) + 4 * (flags >> 13 & 1) + 4 * (flags >> 12 & 1)
        second = (header["kind"] == layers.ERSPAN2) & (flags & 0x1000 != 0)
        third = header["kind"] == layers.ERSPAN3
        self.mirror(frames, size + 8 * second, third)

    def mirror(self, frames: Frames, size: NDArray[np.int64], third: NDArray[np.bool_]) -> None:
        """Continue with the mirrored packets; version III has a longer header, which may have a second part."""
        inner = _Stages(self.addresses, self.decoded, mirrored=True)
        if not third.all():
            chosen = frames.subset(~third)
            inner.link(_fresh(chosen.behind_each(size[~third])), LinkType.ETHERNET)
        if third.any():
            chosen = frames.subset(third).behind_each(size[third])
            chosen = self.need(chosen, 12)
            last = chosen.header(WORD, 10).astype(np.int64)
            kind = last >> 10 & 31
            chosen = self.reject(chosen.with_values(last=last), (kind != 0) & (kind != 2), Reason.NOT_ROCE)
            last = chosen.values["last"]
            chosen = chosen.behind_each(12 + 8 * (last & 1))
            raw = last >> 10 & 31 == 2
            inner.link(_fresh(chosen.subset(~raw)), LinkType.ETHERNET)
            inner.link(_fresh(chosen.subset(raw)), LinkType.RAW)


def _fresh(frames: Frames) -> Frames:
    """Return packets as if they had not been wrapped."""
    vlan = np.full(len(frames), NO_VLAN, np.uint16)
    return Frames.at(frames.buffer, frames.row, frames.position, frames.stop, {"vlan": vlan})


def _pause_columns(frames: Frames, place: int) -> dict[str, NDArray[Any]]:
    header = frames.header(layers.PAUSE)
    per_class = header["opcode"] == layers.PFC_OPCODE
    sender = frames.buffer.view(">u8")[frames.values["link_start"] + place].astype(np.uint64) >> np.uint64(16)
    return {
        "sender": sender,
        "per_class": per_class,
        "vlan": frames.values["vlan"],
        "classes": np.where(per_class, header["classes"] & 0xFF, 0xFF).astype(np.uint8),
        "quanta": np.where(per_class[:, None], header["quanta"], header["classes"][:, None]).astype(np.uint16),
    }
