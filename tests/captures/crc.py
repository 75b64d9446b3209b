"""The invariant CRC, bit by bit from its definition: nothing in common with the reader, which it judges."""

from __future__ import annotations

POLYNOMIAL = 0xEDB88320


def _shifted(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
    return value


TABLE = [_shifted(value) for value in range(256)]


def crc32(data: bytes) -> int:
    """Return the CRC of Ethernet."""
    register = 0xFFFFFFFF
    for byte in data:
        register = register >> 8 ^ TABLE[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


def icrc(network: bytes, udp: bytes, transport: bytes) -> bytes:
    """Return the four bytes at the end of a packet.

    `network` is an IPv4 or IPv6 header or a GRH, `udp` is empty for RoCEv1, `transport` is everything from the base
    transport header. What routers change counts as ones, and so does the local header of InfiniBand, which is absent.
    """
    masked = bytearray(network)
    if network[0] >> 4 == 4:
        for place in (1, 8, 10, 11):
            masked[place] = 0xFF
    else:
        masked[0] |= 0x0F
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF
    masked_udp = udp[:6] + b"\xff\xff" if udp else b""
    masked_transport = transport[:4] + b"\xff" + transport[5:]
    return crc32(b"\xff" * 8 + bytes(masked) + masked_udp + masked_transport).to_bytes(4, "little")
