"""Error counters of interfaces and RDMA ports: their names by driver and card, their meaning, and their growth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from railbed.model.record import Verdict
from railbed.model.statistics import growth_between
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


def growths(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of counters that are in both readings; a counter that fell was reset and does not count."""
    return {name: after[name] - count for name, count in before.items() if name in after and after[name] > count}


@dataclass(frozen=True, slots=True)
class CounterKind:
    """One kind of problem and the counters that show it."""

    meaning: str
    verdict: Verdict
    remedy: str
    names: frozenset[str]


LOSS = CounterKind(
    meaning="loss",
    verdict=Verdict.FAIL,
    remedy="look at pfc, dscp_map and dscp_trust on both ends, then at drops on the switch",
    names=frozenset(
        {
            # mlx5: seen by the receiver, by the sender, and by its timers
            *("out_of_sequence", "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err"),
            *("roce_adp_retrans", "roce_adp_retrans_to", "req_transport_retries_exceeded"),
            # mlx4
            *("rq_num_oos", "sq_num_oos", "sq_num_to", "sq_num_tree"),
            # Soft-RoCE
            *("out_of_seq_request", "rcvd_seq_err", "completer_retry_err", "retry_exceeded_err"),
            # Broadcom
            *("to_retransmits", "seq_err_naks_rcvd", "max_retry_exceeded", "oos_drop_count", "rx_roce_discards"),
            # AMD Pensando
            *("req_rx_pkt_seq_err", "tx_rdma_ack_timeout", "req_tx_retry_excd_err", "resp_rx_outouf_seq"),
            # ports of all cards
            "port_xmit_discards",
        }
    ),
)
RECEIVER = CounterKind(
    meaning="receiver not ready",
    verdict=Verdict.WARN,
    remedy="the program on this node posts too few receives: more buffers or SRQ, or a CPU that is too busy",
    names=frozenset(
        {
            *("out_of_buffer", "rnr_nak_retry_err", "req_rnr_retries_exceeded"),
            *("rq_num_rnr", "sq_num_rnr", "sq_num_rree"),
            *("rcvd_rnr_err", "send_rnr_err", "retry_rnr_exceeded_err"),
            *("rnr_naks_rcvd", "req_rx_rnr_retry_err", "resp_rx_outof_buf"),
        }
    ),
)
CORRUPTION = CounterKind(
    meaning="damaged packets",
    verdict=Verdict.FAIL,
    remedy="clean or replace cable and transceiver of this link, look at FCS errors of the switch port",
    names=frozenset(
        {
            *("symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors"),
            *("local_link_integrity_errors", "link_error_recovery"),
        }
    ),
)
CHANGED = CounterKind(
    meaning="packets changed on the way (ICRC)",
    verdict=Verdict.FAIL,
    remedy="not the cable, whose damage fails the Ethernet checksum first: a card, a switch or memory on the path "
    "changed the packets; `railbed capture --full` at both ends shows where: update its firmware, or replace it",
    names=frozenset({"rx_icrc_encapsulated"}),
)
IGNORED_CNPS = CounterKind(
    meaning="CNPs ignored",
    verdict=Verdict.FAIL,
    remedy="DCQCN is off on this card: see the rule dcqcn",
    names=frozenset({"rp_cnp_ignored", "cnpIgnored"}),
)
KINDS = (LOSS, CORRUPTION, CHANGED, IGNORED_CNPS, RECEIVER)
ALL_NAMES = frozenset().union(*(kind.names for kind in KINDS))


def grown_errors(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of each error counter that is in both readings and has grown."""
    both = sorted(ALL_NAMES & first.keys() & second.keys())
    return {name: growth for name in both if (growth := growth_between(first[name], second[name]).least)}
