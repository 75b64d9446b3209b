"""RDMA port identifiers (GIDs), as several sources print them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from railbed.errors import ParseError

ROCE_V1, ROCE_V2 = "RoCE v1", "RoCE v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """One entry of a port's GID table."""

    index: int
    gid: str
    type: str | None = None
    """`RoCE v1` or `RoCE v2`; None if the source does not name it, and on InfiniBand."""
    netdev: str | None = None

    @property
    def address(self) -> IPv4Address | IPv6Address:
        """The address it represents; a mapped address is returned as IPv4."""
        address = IPv6Address(self.gid)
        return address.ipv4_mapped or address


def gid_text(text: str) -> str:
    """Return a valid GID, or raise ParseError."""
    text = text.strip()
    try:
        if "%" in text:
            raise ValueError
        IPv6Address(text)
    except ValueError:
        raise ParseError("expected a GID", line=text) from None
    return text


def gid_type(text: str) -> str | None:
    """Return the RoCE version in a uniform spelling for `IB/RoCE v1`, `RoCE v2`, `v2`; other text is unchanged."""
    text = text.strip()
    spellings = {"IB/RoCE v1": ROCE_V1, "v1": ROCE_V1, "V1": ROCE_V1, "v2": ROCE_V2, "V2": ROCE_V2}
    return spellings.get(text, text) or None


def of_address(gids: Sequence[Gid], address: IPv4Address | IPv6Address) -> list[Gid]:
    """Return the entries of a table for an address, of either RoCE version."""
    return [gid for gid in gids if gid.address == address]


def rocev2_index(gids: Sequence[Gid], address: IPv4Address | IPv6Address) -> int | None:
    """Return the index of the RoCE v2 entry of an address: by type and address, never by its position in the table."""
    return next((gid.index for gid in of_address(gids, address) if gid.type == ROCE_V2), None)
