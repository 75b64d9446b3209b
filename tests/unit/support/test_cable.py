"""The network that leases addresses to bare machines."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address

import pytest
from tests.support.bare.cable import ACKNOWLEDGE, COOKIE, DISCOVER, asks_for_lease, checksum, lease, options_of

MAC = bytes.fromhex("025201000001")
BODY = (
    bytes([1, 1, 6, 0])
    + b"\x12\x34\x56\x78"
    + bytes(20)
    + MAC
    + bytes(10 + 192)
    + COOKIE
    + bytes([53, 1, DISCOVER, 255])
)


def frame(port: int) -> bytes:
    udp = struct.pack(">HHHH", 68, port, 8 + len(BODY), 0) + BODY
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + bytes(4) + b"\xff" * 4
    return b"\xff" * 6 + MAC + b"\x08\x00" + ip + udp


def test_a_request_is_answered_with_an_address() -> None:
    assert asks_for_lease(memoryview(frame(67)))
    answer = lease(BODY, MAC, IPv4Address("10.55.0.100"), ACKNOWLEDGE)
    assert answer[:6] == MAC
    assert checksum(answer[14:34]) == 0
    message = answer[42:]
    assert (message[4:8], message[16:20], message[28:34]) == (BODY[4:8], bytes([10, 55, 0, 100]), MAC)
    assert options_of(message)[53] == bytes([ACKNOWLEDGE])
    assert options_of(message)[1] == bytes([255, 255, 255, 0])


@pytest.mark.parametrize(
    "other", [b"", frame(67)[:60], frame(4791), b"\0" * 400], ids=["empty", "cut", "RoCE", "zeros"]
)
def test_other_frames_are_forwarded(other: bytes) -> None:
    assert not asks_for_lease(memoryview(other))


@pytest.mark.parametrize("options", [b"", b"\0\0\0", bytes([53]), bytes([53, 9, 1]), bytes([53, 0])])
def test_damaged_options_are_read_as_far_as_they_go(options: bytes) -> None:
    assert options_of(bytes(240) + options).get(53, b"") in (b"", b"\1")
