"""RDMA port identifiers (GIDs), as several sources print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal

from railbed.errors import ParseError

ROCE_V1, ROCE_V2 = "RoCE v1", "RoCE v2"
RoceVersion = Literal[1, 2]


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


def gid_index(gids: Sequence[Gid], address: IPv4Address | IPv6Address, version: RoceVersion) -> int | None:
    """Return the index of an address's entry of a RoCE version: by type and address, never by its position."""
    wanted = ROCE_V1 if version == 1 else ROCE_V2
    return next((gid.index for gid in of_address(gids, address) if gid.type == wanted), None)


def types_of_address(gids: Sequence[Gid], address: IPv4Address | IPv6Address) -> frozenset[str]:
    """Return the RoCE versions of an address's entries; none if their types are not known."""
    return frozenset(gid.type for gid in of_address(gids, address) if gid.type in (ROCE_V1, ROCE_V2))


def common_version(types: Iterable[frozenset[str] | None]) -> RoceVersion:
    """Return the version with which the ports of a rail reach each other, from the types of each port's entries.

    It is v2, unless a port has only v1 and all others have it, too: the two versions cannot talk to each other. Ports
    without an entry do not count.
    """
    known = [own for own in types if own]
    return 1 if any(own == {ROCE_V1} for own in known) and all(ROCE_V1 in own for own in known) else 2
