"""The meaning of the error counters of RDMA ports, by family of card, and their growth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railbed.model.record import Verdict
from railbed.model.span import grown


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
            *("rx_icrc_encapsulated", "symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors"),
            *("local_link_integrity_errors", "link_error_recovery"),
        }
    ),
)
IGNORED = CounterKind(
    meaning="CNPs ignored",
    verdict=Verdict.FAIL,
    remedy="DCQCN is off on this card: see the rule dcqcn",
    names=frozenset({"rp_cnp_ignored", "cnpIgnored"}),
)
KINDS = (LOSS, CORRUPTION, IGNORED, RECEIVER)
ALL_NAMES = frozenset().union(*(kind.names for kind in KINDS))


def moved(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of each error counter that is in both readings and has grown."""
    both = sorted(ALL_NAMES & first.keys() & second.keys())
    return {name: growth for name in both if (growth := grown(first[name], second[name]).least)}
