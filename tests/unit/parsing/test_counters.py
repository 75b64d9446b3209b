from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from railbed.errors import ParseError
from railbed.model.meters import METERS, MISSING, SeriesKey
from railbed.parsing.counters import (
    Answer,
    Counted,
    ForeignConnection,
    Greeting,
    LayoutLine,
    LineFault,
    ReaderLayout,
    Row,
    parse_line,
)
from railbed.parsing.counters.names import ETHTOOL_DRIVERS, RDMA_FAMILIES, SOURCES, CounterTarget


def layout(*groups: tuple[str, str, list[str]]) -> ReaderLayout:
    line = parse_line(b"l " + json.dumps(groups).encode())
    assert isinstance(line, LayoutLine)
    return ReaderLayout("node1", line)


def test_every_counter_is_a_meter() -> None:
    targets = [target for table in SOURCES.values() for target in table.values()]
    assert {target.meter for target in targets} <= METERS.keys()
    assert all(METERS[target.meter].part == "priority" for target in targets if target.part)


@pytest.mark.parametrize("families", [RDMA_FAMILIES, ETHTOOL_DRIVERS])
def test_a_name_means_the_same_on_all_cards(families: dict[str, dict[str, CounterTarget]]) -> None:
    names = Counter(name for table in families.values() for name in table)
    assert [name for name, count in names.items() if count > 1] == []


def test_vendors_have_the_same_series() -> None:
    mlx5 = layout(("rdma", "ens1", ["hw_counters/np_cnp_sent"]), ("ethtool", "ens1", ["rx_prio3_pause"]))
    bnxt = layout(("rdma", "ens1", ["hw_counters/tx_cnp_pkts"]), ("ethtool", "ens1", ["rx_pfc_ena_frames_pri3"]))
    irdma = layout(("rdma", "ens1", ["hw_counters/cnpSent"]), ("ethtool", "ens1", ["rx_priority_3_xoff.nic"]))
    expected = (SeriesKey("node1", "rdma_cnp_sent", "ens1"), SeriesKey("node1", "pause_rx_frames", "ens1", "3"))
    assert mlx5.series == bnxt.series == irdma.series == expected


def test_words_become_bytes_and_gpus_parts() -> None:
    both = layout(("rdma", "ens1", ["counters/port_rcv_data"]), ("gpu", "1", ["power"]), ("host", "", ["cpu_busy_us"]))
    assert both.series == (
        SeriesKey("node1", "rdma_rx_bytes", "ens1"),
        SeriesKey("node1", "gpu_power", "", "1"),
        SeriesKey("node1", "cpu_busy_us"),
    )
    assert both.values([250, 300_000, 7]) == [1000, 300_000, 7]


def test_segments_to_a_peer_have_its_address() -> None:
    names = [
        "segments@10.1.0.2",
        "retransmits@10.1.0.2",
        "needless@10.1.0.2",
        "segments@10.1.0.02",
        "segments@<b>",
        "segments",
        "bytes@10.1.0.2",
    ]
    to_peers = layout(("tcp_peer", "rail0", names))
    assert to_peers.series == (
        SeriesKey("node1", "tcp_peer_segments", "rail0", "10.1.0.2"),
        SeriesKey("node1", "tcp_peer_retransmits", "rail0", "10.1.0.2"),
        SeriesKey("node1", "tcp_peer_needless", "rail0", "10.1.0.2"),
    )
    assert to_peers.values([7, 2, 1, 3, 4, 5, 6]) == [7, 2, 1]


def test_what_a_port_does_not_have_is_missing() -> None:
    two = layout(("net", "ens1", ["rx_bytes", "unheard_of", "tx_bytes"]), ("other", "ens1", ["x"]))
    assert [series.meter for series in two.series] == ["net_rx_bytes", "net_tx_bytes"]
    assert two.width == 4
    assert two.values([None, 1, 1 << 63, 2]) == [MISSING, MISSING]


def test_the_first_name_of_a_meter_decides() -> None:
    packets = layout(("rdma", "ens1", ["counters/port_rcv_packets", "hw_counters/rcvd_pkts"]))
    assert packets.values([5, 7]) == [5]


def test_mlx5_counts_congestion_in_64_bits_and_queues_in_32() -> None:
    names = ("np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled", "rx_icrc_encapsulated", "out_of_sequence")
    counters = layout(("rdma", "ens1", [f"hw_counters/{name}" for name in names]))
    last: dict[SeriesKey, Counted] = {}
    top = 1 << 32
    for before_and_after in ([top - 1] * 5, [top + 5, top + 5, top + 5, 3, 3]):
        values = counters.values(before_and_after)
        counters.widen(values, last)
    assert values == [top + 5, top + 5, top + 5, 3, top + 3]  # the fourth was reset, only the last one wrapped


def test_32_bits_continue_after_they_wrap() -> None:
    narrow = layout(("rdma", "ens1", ["hw_counters/out_of_sequence"]))
    top = 1 << 32
    for raws, expected in (
        ((top - 10, None, 5, 20, 3), [top - 10, MISSING, top + 5, top + 20, 3]),
        ((top - 9000, top - 8990, 0, 7), [top - 9000, top - 8990, 0, 7]),  # reset shortly before it would wrap
        ((top - 9000, top - 3000, 1000, 2000), [top - 9000, top - 3000, top + 1000, top + 2000]),
    ):
        last: dict[SeriesKey, Counted] = {}
        stored = []
        for raw in raws:
            values = narrow.values([raw])
            narrow.widen(values, last)
            stored += values
        assert stored == expected


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        (b"h 1 4711", Greeting(4711)),
        (b"q 7 1000 1794900000000000", Answer(7, 1000, 1794900000000000)),
        (
            b't ["10.1.0.1:4000", "10.1.0.2:5201", "7", "iperf3"]',
            ForeignConnection("10.1.0.1:4000", "10.1.0.2:5201", "7", "iperf3"),
        ),
        (b"r 1000 5 - 7", Row(1000, [5, None, 7])),
        (b"e OSError: broken", LineFault("OSError: broken")),
        (b'l [["net", "ens1", ["rx_bytes"]]]', LayoutLine((("net", "ens1", ("rx_bytes",)),))),
    ],
)
def test_lines_of_the_reader(line: bytes, parsed: Any) -> None:
    assert parse_line(line) == parsed


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Last login: today",
        b"h 2 4711",
        b"q 7 1000",
        b't ["10.1.0.1:4000"]',
        b't ["a", "b", 7, "d"]',
        b't ["a", "b", "c", "' + b"d" * 65 + b'"]',
        b"t [",
        b"q 7 1000 99999999999999999999",
        b"r x 5",
        b"r 1000 5 x",
        b"r 1000 " + b"9" * 21,
        b"r 1000 " + b"1 " * 9000,
        b"l {}",
        b'l [["net", "ens1"]]',
        b'l [["net", "\\ud800", ["rx_bytes"]]]',
        b'l [["net", "a b", ["rx_bytes"]]]',
        b"l " + b"[" * 100_000,
    ],
)
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(ParseError):
        parse_line(line)
