"""The blocks of a pcapng file that are not packets."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from railbed.capture.files.formats.blocks import INTERFACE, SECTION, STATISTICS
from railbed.capture.files.links import Link

NAMES = 4
"""The type of a block with names of addresses."""
COMMENT = 1
APPLICATION = 4
INTERFACE_NAME, INTERFACE_DESCRIPTION, RESOLUTION = 2, 3, 9
STARTED, ENDED, RECEIVED, DROPPED = 2, 3, 4, 5
BYTE_ORDER, UNKNOWN_LENGTH = 0x1A2B3C4D, -1
MOST_TEXT = 60_000
"""Bytes of a text; the length of an option has 16 bits."""
LINK_NUMBERS = {Link.ETHERNET: 1, Link.RAW: 101, Link.COOKED: 113, Link.COOKED2: 276}


def text_option(code: int, text: str) -> bytes:
    """Return an option with a text; an empty one is left out."""
    return option(code, text.encode("utf-8", "replace")[:MOST_TEXT]) if text else b""


def option(code: int, value: bytes) -> bytes:
    """Return an option."""
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


END = struct.pack("<HH", 0, 0)
"""After the last option."""


def _block(kind: int, content: bytes) -> bytes:
    length = struct.pack("<I", len(content) + 12)
    return struct.pack("<I", kind) + length + content + length


def section(application: str, comment: str) -> bytes:
    """Return the header of the file."""
    options = text_option(COMMENT, comment) + text_option(APPLICATION, application)
    return _block(SECTION, struct.pack("<IHHq", BYTE_ORDER, 1, 0, UNKNOWN_LENGTH) + options + END)


def interface(link: Link, snap_length: int, name: str, description: str) -> bytes:
    """Return the description of an interface whose times are in nanoseconds."""
    options = text_option(INTERFACE_NAME, name) + text_option(INTERFACE_DESCRIPTION, description)
    options += option(RESOLUTION, b"\x09")
    return _block(INTERFACE, struct.pack("<HHI", LINK_NUMBERS[link], 0, snap_length) + options + END)


def statistics(number: int, span: tuple[int, int] | None, received: int, dropped: int | None) -> bytes:
    """Return what an interface counted; times are nanoseconds."""
    first, last = span or (0, 0)
    options = option(STARTED, _time(first)) + option(ENDED, _time(last)) if span else b""
    options += option(RECEIVED, struct.pack("<Q", received + (dropped or 0)))
    if dropped is not None:
        options += option(DROPPED, struct.pack("<Q", dropped))
    return _block(STATISTICS, struct.pack("<I", number) + _time(last) + options + END)


def names(by_address: Mapping[str, str]) -> bytes:
    """Return the names of addresses; nothing without any."""
    records = b"".join(_name_records(by_address.items()))
    return _block(NAMES, records + END) if records else b""


def _name_records(pairs: Iterable[tuple[str, str]]) -> Iterable[bytes]:
    for address, name in pairs:
        packed = ip_address(address).packed
        yield option(1 if len(packed) == 4 else 2, packed + name.encode() + b"\0")


def _time(nanoseconds: int) -> bytes:
    return struct.pack("<II", *divmod(max(0, nanoseconds), 1 << 32))
