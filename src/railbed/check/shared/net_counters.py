"""Error counters by the names that drivers use, and their growth between two readings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from railbed.probes import ip_link
from railbed.probes.ip_link import Link
from railbed.rules.site import PortView

ERRORS = re.compile(
    r"""
      discard                               # mlx5 rx_discards_phy, rx_prio3_discards; bnxt rx_discard_pkts
    | crc_err | fcs_err | symbol_err | align_err                    # a bad cable, transceiver or connector
    | jabber | _jbr_ | undersize | oversize | ov_?rsz | rx_fragments   # a frame of a wrong length
    | (in|out_of|out)_range_len             # the peer sends longer frames than this MTU
    | length_err | frame_err | over_err | fifo_err | missed_err
    | pause_storm                           # mlx5 gave up pausing: packets are dropped from here on
    | pci_buffer_overflow                   # the host does not take the data fast enough
    | (^|[._])(rx|tx)_err(ors?)?([._]phy|$) # mlx4, virtio, Intel: all errors in one
    | illegal_bytes | mac_(local|remote)_faults | fifo_underrun
    """,
    re.VERBOSE,
)
DROPS = re.compile(r"(^|[._])(rx|tx)_(queue_)?drop(s|ped)($|[._])|out_of_buffer|no_(dma_resources|buffer)")
"""Drops that also happen on a healthy host: no socket for the packet, or the kernel was briefly too slow."""

IGNORED = re.compile(r"xdp|csum|checksum|corrected|^\[?\d+\]?:|queue_\d|^[rt]x-?\d+[._]")
"""Not errors (FEC at work), or the share of a queue in a counter that also exists for the whole interface."""

FLAPS = ("link_down_events_phy", "link_down_events", "link_down")


def is_error(name: str) -> bool:
    """Whether a counter counts packets lost or damaged on the wire or in the card."""
    return bool(ERRORS.search(name)) and not IGNORED.search(name)


def is_drop(name: str) -> bool:
    """Whether a counter counts packets that the host dropped."""
    return bool(DROPS.search(name)) and not IGNORED.search(name) and not is_error(name)


def both_links(port: PortView) -> tuple[Link, Link] | None:
    """Return both readings of a port's interface, or None if it does not exist."""
    netdev = port.port.netdev
    first, second = port.read(ip_link.PROBE).links.get(netdev), port.node.again(ip_link.PROBE).links.get(netdev)
    return (first, second) if first and second else None


def moved(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of counters that are in both readings; a counter that fell was reset and does not count."""
    return {name: after[name] - count for name, count in before.items() if name in after and after[name] > count}
