"""Which meter a counter of a driver is: the same thing has another name on each family of cards.

A counter that a card does not have is absent. The first name that a port has decides, if several mean the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

WORD = 4
"""Bytes of a word, the unit of `port_xmit_data`."""
NARROW = 32
PRIORITIES = range(8)


class CounterTarget(NamedTuple):
    """The meter of a counter, and how its value is converted."""

    meter: str
    part: str = ""
    factor: int = 1
    bits: int = 64
    """Width at which this card's counter wraps."""


def _of_ports() -> dict[str, CounterTarget]:
    """Counters that the InfiniBand specification defines; RoCE ports of mlx4, mlx5 and irdma have them too."""
    return {
        "counters/port_rcv_data": CounterTarget("rdma_rx_bytes", factor=WORD),
        "counters/port_xmit_data": CounterTarget("rdma_tx_bytes", factor=WORD),
        "counters/port_rcv_packets": CounterTarget("rdma_rx_packets"),
        "counters/port_xmit_packets": CounterTarget("rdma_tx_packets"),
        "counters/link_downed": CounterTarget("rdma_link_downed", bits=NARROW),
        "counters/symbol_error": CounterTarget("phy_symbol_errors"),
    }


def _of_hardware(bits: int, names: Mapping[str, str]) -> dict[str, CounterTarget]:
    return {f"hw_counters/{name}": CounterTarget(meter, bits=bits) for name, meter in names.items()}


RDMA_FAMILIES: Mapping[str, Mapping[str, CounterTarget]] = {
    "every port": _of_ports(),
    "mlx5": _of_hardware(
        NARROW,  # the firmware's queue counters
        {
            "out_of_sequence": "rdma_out_of_sequence",
            "packet_seq_err": "rdma_sequence_naks",
            "local_ack_timeout_err": "rdma_timeouts",
            "roce_adp_retrans": "rdma_retransmits",
            "req_transport_retries_exceeded": "rdma_retries_exceeded",
            "rnr_nak_retry_err": "rdma_receiver_not_ready",
            "out_of_buffer": "rdma_out_of_buffer",
        },
    )
    | _of_hardware(
        64,  # those of congestion and of the port
        {
            "np_ecn_marked_roce_packets": "rdma_ecn_marked_packets",
            "np_cnp_sent": "rdma_cnp_sent",
            "rp_cnp_handled": "rdma_cnp_handled",
            "rp_cnp_ignored": "rdma_cnp_ignored",
            "rx_icrc_encapsulated": "rdma_damaged_packets",
        },
    ),
    "mlx4": _of_hardware(
        NARROW,
        {
            "rq_num_oos": "rdma_out_of_sequence",
            "sq_num_oos": "rdma_sequence_naks",
            "sq_num_to": "rdma_timeouts",
            "sq_num_tree": "rdma_retries_exceeded",
            "sq_num_rnr": "rdma_receiver_not_ready",
            "rq_num_dup": "rdma_duplicate_requests",
        },
    ),
    "rxe": _of_hardware(
        64,
        {
            "rcvd_pkts": "rdma_rx_packets",
            "sent_pkts": "rdma_tx_packets",
            "out_of_seq_request": "rdma_out_of_sequence",
            "rcvd_seq_err": "rdma_sequence_naks",
            "completer_retry_err": "rdma_retransmits",
            "retry_exceeded_err": "rdma_retries_exceeded",
            "rcvd_rnr_err": "rdma_receiver_not_ready",
            "duplicate_request": "rdma_duplicate_requests",
            "link_downed": "rdma_link_downed",
        },
    ),
    "bnxt_re": _of_hardware(
        64,
        {
            "rx_bytes": "rdma_rx_bytes",
            "tx_bytes": "rdma_tx_bytes",
            "rx_pkts": "rdma_rx_packets",
            "tx_pkts": "rdma_tx_packets",
            "rx_ecn_marked_pkts": "rdma_ecn_marked_packets",
            "tx_cnp_pkts": "rdma_cnp_sent",
            "rx_cnp_pkts": "rdma_cnp_handled",
            "oos_drop_count": "rdma_out_of_sequence",
            "seq_err_naks_rcvd": "rdma_sequence_naks",
            "to_retransmits": "rdma_timeouts",
            "max_retry_exceeded": "rdma_retries_exceeded",
            "rnr_naks_rcvd": "rdma_receiver_not_ready",
            "dup_req": "rdma_duplicate_requests",
        },
    ),
    "irdma": _of_hardware(
        64,
        {
            "ip4InOctets": "rdma_rx_bytes",
            "ip4OutOctets": "rdma_tx_bytes",
            "ip4InPkts": "rdma_rx_packets",
            "ip4OutPkts": "rdma_tx_packets",
            "RxECNMrkd": "rdma_ecn_marked_packets",
            "cnpSent": "rdma_cnp_sent",
            "cnpHandled": "rdma_cnp_handled",
            "cnpIgnored": "rdma_cnp_ignored",
        },
    ),
    "ionic": _of_hardware(
        64,
        {
            "rx_rdma_ucast_bytes": "rdma_rx_bytes",
            "tx_rdma_ucast_bytes": "rdma_tx_bytes",
            "rx_rdma_ucast_pkts": "rdma_rx_packets",
            "tx_rdma_ucast_pkts": "rdma_tx_packets",
            "rx_rdma_ecn_pkts": "rdma_ecn_marked_packets",
            "tx_rdma_cnp_pkts": "rdma_cnp_sent",
            "rx_rdma_cnp_pkts": "rdma_cnp_handled",
            "resp_rx_outouf_seq": "rdma_out_of_sequence",
            "req_rx_pkt_seq_err": "rdma_sequence_naks",
            "tx_rdma_ack_timeout": "rdma_timeouts",
            "req_tx_retry_excd_err": "rdma_retries_exceeded",
            "req_rx_rnr_retry_err": "rdma_receiver_not_ready",
            "resp_rx_outof_buf": "rdma_out_of_buffer",
        },
    ),
}
"""`duplicate_request` is the same on mlx5 and Soft-RoCE; it is listed once, with the width of Soft-RoCE."""


def _each_priority(patterns: Mapping[str, str]) -> Iterator[tuple[str, CounterTarget]]:
    for pattern, meter in patterns.items():
        for priority in PRIORITIES:
            yield pattern.format(priority), CounterTarget(meter, str(priority))


def _driver(patterns: Mapping[str, str], names: Mapping[str, str]) -> dict[str, CounterTarget]:
    return {**dict(_each_priority(patterns)), **{name: CounterTarget(meter) for name, meter in names.items()}}


ETHTOOL_DRIVERS: Mapping[str, Mapping[str, CounterTarget]] = {
    "mlx5_core": _driver(
        {
            "rx_prio{}_pause": "pause_rx_frames",
            "tx_prio{}_pause": "pause_tx_frames",
            "rx_prio{}_pause_duration": "pause_rx_us",
            "tx_prio{}_pause_duration": "pause_tx_us",
            "rx_prio{}_bytes": "priority_rx_bytes",
            "tx_prio{}_bytes": "priority_tx_bytes",
            "rx_prio{}_packets": "priority_rx_packets",
            "tx_prio{}_packets": "priority_tx_packets",
            "rx_prio{}_discards": "priority_rx_drops",
        },
        {
            "rx_global_pause": "pause_rx_frames",
            "tx_global_pause": "pause_tx_frames",
            "rx_global_pause_duration": "pause_rx_us",
            "tx_global_pause_duration": "pause_tx_us",
            "tx_pause_storm_warning_events": "pause_storm_warnings",
            "tx_pause_storm_error_events": "pause_storm_errors",
            "rx_discards_phy": "phy_rx_drops",
            "rx_crc_errors_phy": "phy_crc_errors",
            "rx_symbol_err_phy": "phy_symbol_errors",
            "rx_pcs_symbol_err_phy": "phy_symbol_errors",
            "rx_oversize_pkts_phy": "phy_oversize_packets",
            "outbound_pci_stalled_wr_events": "pcie_stalled_writes",
        },
    ),
    "mlx4_en": _driver(
        {
            "rx_pause_prio_{}": "pause_rx_frames",
            "tx_pause_prio_{}": "pause_tx_frames",
            "rx_pause_duration_prio_{}": "pause_rx_us",
            "tx_pause_duration_prio_{}": "pause_tx_us",
            "rx_prio_{}_bytes": "priority_rx_bytes",
            "tx_prio_{}_bytes": "priority_tx_bytes",
            "rx_prio_{}_packets": "priority_rx_packets",
            "tx_prio_{}_packets": "priority_tx_packets",
        },
        {
            "rx_pause": "pause_rx_frames",
            "tx_pause": "pause_tx_frames",
            "rx_pause_duration": "pause_rx_us",
            "tx_pause_duration": "pause_tx_us",
        },
    ),
    "bnxt_en": _driver(
        {
            "rx_pfc_ena_frames_pri{}": "pause_rx_frames",
            "tx_pfc_ena_frames_pri{}": "pause_tx_frames",
            "pfc_pri{}_rx_duration_us": "pause_rx_us",
            "pfc_pri{}_tx_duration_us": "pause_tx_us",
            "rx_bytes_pri{}": "priority_rx_bytes",
            "tx_bytes_pri{}": "priority_tx_bytes",
            "rx_packets_pri{}": "priority_rx_packets",
            "tx_packets_pri{}": "priority_tx_packets",
        },
        {
            "rx_pause_frames": "pause_rx_frames",
            "tx_pause_frames": "pause_tx_frames",
            "rx_stat_discard": "phy_rx_drops",
            "rx_fcs_err_frames": "phy_crc_errors",
            "rx_pcs_symbol_err": "phy_symbol_errors",
            "rx_ovrsz_frames": "phy_oversize_packets",
        },
    ),
    "ice": _driver(
        {
            "rx_priority_{}_xoff.nic": "pause_rx_frames",
            "tx_priority_{}_xoff.nic": "pause_tx_frames",
        },
        {
            "link_xoff_rx.nic": "pause_rx_frames",
            "link_xoff_tx.nic": "pause_tx_frames",
            "rx_dropped.nic": "phy_rx_drops",
            "rx_crc_errors.nic": "phy_crc_errors",
            "rx_oversize.nic": "phy_oversize_packets",
        },
    ),
    "ionic": _driver(
        {
            "frames_rx_pri_{}": "priority_rx_packets",
            "frames_tx_pri_{}": "priority_tx_packets",
            "frames_rx_pripause{}": "pause_rx_frames",
            "frames_tx_pripause{}": "pause_tx_frames",
        },
        {
            "frames_rx_pause": "pause_rx_frames",
            "frames_tx_pause": "pause_tx_frames",
            "frames_rx_bad_fcs": "phy_crc_errors",
            "frames_rx_oversized": "phy_oversize_packets",
        },
    ),
}
"""A pause without a priority (802.3x) has no part."""

RDMA: Mapping[str, CounterTarget] = {
    name: target for family in RDMA_FAMILIES.values() for name, target in family.items()
}
"""Every counter of RDMA ports that is read, by its path below the port."""
ETHTOOL: Mapping[str, CounterTarget] = {
    name: target for driver in ETHTOOL_DRIVERS.values() for name, target in driver.items()
}
"""Every counter of network drivers that is read, by its name in `ethtool -S`."""
NET: Mapping[str, CounterTarget] = {
    "rx_bytes": CounterTarget("net_rx_bytes"),
    "tx_bytes": CounterTarget("net_tx_bytes"),
    "rx_packets": CounterTarget("net_rx_packets"),
    "tx_packets": CounterTarget("net_tx_packets"),
    "rx_errors": CounterTarget("net_rx_errors"),
    "tx_errors": CounterTarget("net_tx_errors"),
    "rx_dropped": CounterTarget("net_rx_drops"),
    "tx_dropped": CounterTarget("net_tx_drops"),
    "carrier_changes": CounterTarget("net_carrier_changes", bits=NARROW),
}
QDISC: Mapping[str, CounterTarget] = {
    "backlog_bytes": CounterTarget("qdisc_backlog_bytes"),
    "drops": CounterTarget("qdisc_drops", bits=NARROW),
    "overlimits": CounterTarget("qdisc_overlimits", bits=NARROW),
}
TCP: Mapping[str, CounterTarget] = {
    "rtt_us": CounterTarget("tcp_rtt_us"),
    "slowest_peer": CounterTarget("tcp_slowest_peer"),
    "training_tx_bytes": CounterTarget("tcp_training_tx_bytes"),
    "training_rx_bytes": CounterTarget("tcp_training_rx_bytes"),
    "foreign_tx_bytes": CounterTarget("tcp_foreign_tx_bytes"),
    "foreign_rx_bytes": CounterTarget("tcp_foreign_rx_bytes"),
    "foreign_tx_peer": CounterTarget("tcp_foreign_tx_peer"),
    "foreign_rx_peer": CounterTarget("tcp_foreign_rx_peer"),
}
TCP_PEER: Mapping[str, CounterTarget] = {
    "segments": CounterTarget("tcp_peer_segments"),
    "retransmits": CounterTarget("tcp_peer_retransmits"),
    "needless": CounterTarget("tcp_peer_needless"),
}
"""The name of a counter is followed by `@` and the peer's address."""
HOST: Mapping[str, CounterTarget] = {
    name: CounterTarget(name)
    for name in (
        *("tcp_segments_sent", "tcp_retransmits", "tcp_needless", "ip_ce_packets", "cpu_busy_us"),
        *("cpu_softirq_us", "memory_used_bytes", "memory_total_bytes", "reader_cpu_us"),
    )
}
GPU: Mapping[str, CounterTarget] = {
    name: CounterTarget(f"gpu_{name}") for name in ("busy", "memory_used_bytes", "power", "temperature", "clock")
}
SOURCES: Mapping[str, Mapping[str, CounterTarget]] = {
    "rdma": RDMA,
    "net": NET,
    "ethtool": ETHTOOL,
    "qdisc": QDISC,
    "tcp": TCP,
    "tcp_peer": TCP_PEER,
    "host": HOST,
    "gpu": GPU,
}
"""The tables by the source that the reader names in its layout."""
