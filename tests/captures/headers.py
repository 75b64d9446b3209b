"""The headers of packets as bytes, written from the specifications."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

SOURCE_MAC = bytes.fromhex("020000000001")
DESTINATION_MAC = bytes.fromhex("020000000002")
PAUSE_MAC = bytes.fromhex("0180c2000001")


def ethernet(ethertype: int, tags: tuple[tuple[int, int], ...] = (), *, source: bytes = SOURCE_MAC) -> bytes:
    """Return an Ethernet header; each tag is its own ethertype and its PCP, DEI and VID."""
    vlan = b"".join(struct.pack(">HH", kind, control) for kind, control in tags)
    return DESTINATION_MAC + source + vlan + struct.pack(">H", ethertype)


def cooked(ethertype: int, tags: tuple[tuple[int, int], ...] = ()) -> bytes:
    """Return the header of Linux's cooked captures, version 1."""
    kinds = [kind for kind, _ in tags] + [ethertype]
    first = struct.pack(">HHH8sH", 0, 1, 6, SOURCE_MAC + b"\0\0", kinds[0])
    return first + _rest_of_tags(tags, kinds)


def cooked2(ethertype: int, tags: tuple[tuple[int, int], ...] = ()) -> bytes:
    """Return the header of Linux's cooked captures, version 2."""
    kinds = [kind for kind, _ in tags] + [ethertype]
    first = struct.pack(">HHIHBB8s", kinds[0], 0, 3, 1, 0, 6, SOURCE_MAC + b"\0\0")
    return first + _rest_of_tags(tags, kinds)


def _rest_of_tags(tags: tuple[tuple[int, int], ...], kinds: list[int]) -> bytes:
    return b"".join(struct.pack(">HH", control, kinds[place + 1]) for place, (_, control) in enumerate(tags))


def ip(
    source: str,
    destination: str,
    payload: int,
    *,
    protocol: int = 17,
    tos: int = 0,
    between: bytes = b"",
    fragment: int = 0x4000,
) -> bytes:
    """Return an IPv4 header with options, or an IPv6 header with extension headers (`between`)."""
    sender, receiver = ip_address(source), ip_address(destination)
    if isinstance(sender, IPv4Address):
        length = 20 + len(between)
        first = struct.pack(">BBHHHBBH", 0x40 | length // 4, tos, length + payload, 0x1234, fragment, 64, protocol, 0)
        header = first + sender.packed + receiver.packed + between
        return header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    assert isinstance(sender, IPv6Address)
    version = 6 << 28 | tos << 20 | 0xABCDE
    first = struct.pack(">IHBB", version, len(between) + payload, between[0] if between else protocol, 64)
    return first + sender.packed + receiver.packed + between[1:]


def extensions(kinds: tuple[int, ...], protocol: int = 17) -> bytes:
    """Return IPv6 extension headers of eight bytes each, with the kind of the first one in front of them."""
    content = bytes([kinds[0]]) if kinds else b""
    for following in (*kinds[1:], protocol) if kinds else ():
        content += bytes([following, 0]) + bytes(6)
    return content


def checksum(header: bytes) -> int:
    """Return the checksum of an IPv4 header whose own field is zero."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def udp(source_port: int, payload: int, *, port: int = 4791) -> bytes:
    """Return a UDP header."""
    return struct.pack(">HHHH", source_port, port, 8 + payload, 0)


def grh(source: str, destination: str, payload: int, *, tos: int = 0) -> bytes:
    """Return a global route header, of RoCEv1."""
    first = struct.pack(">IHBB", 6 << 28 | tos << 20, payload, 0x1B, 1)
    return first + IPv6Address(source).packed + IPv6Address(destination).packed


def bth(opcode: int, *, qp: int, psn: int, pad: int = 0, bits: int = 0, key: int = 0xFFFF) -> bytes:
    """Return a base transport header; `bits` are those of `railbed.capture.packets.Bit`."""
    solicited, migration = bits >> 1 & 1, bits >> 4 & 1
    flags = solicited << 7 | migration << 6 | pad << 4
    congestion = (bits >> 2 & 1) << 31 | (bits >> 3 & 1) << 30
    return struct.pack(">BBHII", opcode, flags, key, congestion | qp, (bits & 1) << 31 | psn)


def mirrored(frame: bytes, kind: str, *, protocol: int | None = None) -> bytes:
    """Return a frame as a switch mirrors it: `erspan1`, `erspan2`, `erspan3`, or `erspan3+` with its sub-header."""
    sequence = struct.pack(">I", 7)
    match kind:
        case "erspan1":
            inner = struct.pack(">HH", 0, 0x88BE)
        case "erspan2":
            inner = struct.pack(">HH", 0x1000, 0x88BE) + sequence + struct.pack(">II", 1 << 28 | 100 << 16 | 5, 9)
        case "erspan3" | "erspan3+":
            last = 0x0001 if kind.endswith("+") else 0
            header = struct.pack(">IIHH", 2 << 28 | 100 << 16 | 5, 0x11223344, 0, last)
            sub_header = bytes.fromhex("0c00000100000002") if last else b""
            inner = struct.pack(">HH", 0x1000, 0x22EB) + sequence + header + sub_header
        case _:
            raise ValueError(kind)
    content = inner + frame
    outer = ip("192.0.2.1", "192.0.2.2", len(content), protocol=protocol or 47)
    return ethernet(0x0800) + outer + content


def pause(quanta: tuple[int, ...], classes: int | None, *, source: bytes = SOURCE_MAC) -> bytes:
    """Return a frame of priority flow control, or an 802.3x pause if `classes` is None."""
    head = PAUSE_MAC + source + struct.pack(">H", 0x8808)
    if classes is None:
        return (head + struct.pack(">HH", 0x0001, quanta[0])).ljust(60, b"\0")
    return (head + struct.pack(">HH8H", 0x0101, classes, *quanta)).ljust(60, b"\0")
