"""Choosing a GID: by type and address, never by its place in the table."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

from railbed.probes.gids import ROCE_V2, Gid


def of_address(gids: Sequence[Gid], address: IPv4Address | IPv6Address) -> list[Gid]:
    """Return the entries of a table that stand for an address, of either RoCE version."""
    return [gid for gid in gids if gid.address == address]


def rocev2_index(gids: Sequence[Gid], address: IPv4Address | IPv6Address) -> int | None:
    """Return the index of the RoCE v2 entry of an address."""
    return next((gid.index for gid in of_address(gids, address) if gid.type == ROCE_V2), None)
