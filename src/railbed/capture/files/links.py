"""Link types: what stands before the IP header in a capture file, by number."""

from __future__ import annotations

from enum import IntEnum


class Link(IntEnum):
    """How a recorded packet begins."""

    UNSUPPORTED = 0
    ETHERNET = 1
    RAW = 2
    """With the IP header itself, of either version."""
    COOKED = 3
    COOKED2 = 4


SUPPORTED = {
    1: Link.ETHERNET,
    12: Link.RAW,
    14: Link.RAW,
    101: Link.RAW,
    113: Link.COOKED,
    228: Link.RAW,
    229: Link.RAW,
    276: Link.COOKED2,
}
NAMES = {
    0: "BSD loopback",
    6: "IEEE 802.5 Token Ring",
    9: "PPP",
    10: "FDDI",
    50: "PPP over serial HDLC",
    51: "PPPoE",
    104: "Cisco HDLC",
    105: "IEEE 802.11",
    108: "OpenBSD loopback",
    119: "Prism 802.11",
    127: "IEEE 802.11 with radiotap",
    147: "user-defined 0",
    189: "Linux USB",
    192: "PPI",
    195: "IEEE 802.15.4",
    197: "ERF",
    201: "Bluetooth HCI",
    220: "Linux USB, padded",
    239: "Linux netfilter log",
    247: "InfiniBand",
    249: "USBPcap",
    253: "Linux netlink",
    271: "vsock",
    272: "Nordic BLE",
}
READABLE = "Ethernet, Linux cooked and raw IP"


def link_name(number: int) -> str:
    """Return how people know a link type."""
    return f"link type {number} ({NAMES[number]})" if number in NAMES else f"link type {number}"
