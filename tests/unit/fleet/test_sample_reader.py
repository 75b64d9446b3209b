"""The reader's sources, on trees and messages as kernels and drivers make them."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from railbed.fleet.node_program import FETCH
from railbed.fleet.sample.node import ethtool, files, nvml, peers, qdisc, reader, sockets
from railbed.fleet.sample.nodes import READER, order
from railbed.parsing.counters import RDMA, Answer, Greeting, LayoutLine, Row, parse_line
from railbed.transport import netlink


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def sys_class(tmp_path: Path) -> Path:
    port = tmp_path / "infiniband" / "mlx5_0" / "ports" / "1"
    write(port / "counters" / "port_rcv_data", "250\n")
    write(port / "counters" / "port_xmit_packets", "N/A (no PMA)\n")
    write(port / "hw_counters" / "np_cnp_sent", "3\n")
    write(port / "hw_counters" / "lifespan", "10\n")
    write(port / "gid_attrs" / "ndevs" / "2", "ens1\n")
    soft = tmp_path / "infiniband" / "rxe0"
    write(soft / "ports" / "1" / "hw_counters" / "sent_pkts", "12\n")
    write(soft / "parent", "rail1\n")
    for name in ("ens1", "rail1", "veth7", "docker0"):
        write(tmp_path / "net" / name / "statistics" / "rx_bytes", "100\n")
    write(tmp_path / "net" / "ens1" / "carrier_changes", "2\n")
    write(tmp_path / "net" / "ens9" / "device" / "vendor", "0x15b3\n")
    return tmp_path


def test_rdma_ports_under_the_names_of_their_interfaces(sys_class: Path) -> None:
    groups = files.rdma_files(str(sys_class), list(RDMA))
    assert {group.port: dict(zip(group.names, group.read(), strict=True)) for group in groups} == {
        "ens1": {"counters/port_rcv_data": 250, "hw_counters/np_cnp_sent": 3},
        "rail1": {"hw_counters/sent_pkts": 12},
    }


def test_interfaces_of_the_cluster_of_cards_and_of_rdma(sys_class: Path) -> None:
    assert files.interfaces(str(sys_class), ["docker0"]) == ["docker0", "ens1", "ens9", "rail1"]
    group = files.interface_files(str(sys_class), "ens1")
    assert (group.names, group.read()) == (["rx_bytes", "carrier_changes"], [100, 2])


def test_a_file_that_goes_away_is_missing(sys_class: Path) -> None:
    group = files.interface_files(str(sys_class), "ens1")
    (sys_class / "net" / "ens1" / "statistics" / "rx_bytes").write_text("")
    assert group.read() == [None, 2]


def test_a_device_that_is_replaced_by_one_of_the_same_name_is_read_again(sys_class: Path) -> None:
    """As when a driver is loaded again between two scans: files of the old device stay open and hold nothing."""
    sources = reader.Sources(reader.ReaderOrder(order(1.0, [], [])), str(sys_class))
    assert '["rdma", "rail1", ["hw_counters/sent_pkts"]]' in sources.changed_layout()
    assert sources.read()[-1] == 12
    assert not sources.are_outdated()
    rxe = sys_class / "infiniband" / "rxe0"
    rxe.rename(sys_class / "removed")
    write(sys_class / "removed" / "ports" / "1" / "hw_counters" / "sent_pkts", "")
    write(rxe / "ports" / "1" / "hw_counters" / "sent_pkts", "1\n")
    write(rxe / "parent", "rail1\n")
    assert sources.read()[-1] is None
    assert sources.are_outdated()
    sources.scan()
    assert (sources.read()[-1], sources.changed_layout()) == (1, "")
    sources.close()


def test_processors_and_memory_of_this_machine() -> None:
    host = files.Host()
    values = dict(zip(host.names, host.read(), strict=True))
    assert {"cpu_busy_us", "memory_used_bytes", "tcp_segments_sent", "reader_cpu_us"} <= values.keys()
    assert 0 < (values["memory_used_bytes"] or 0) < (values["memory_total_bytes"] or 0)


def queue_message(parent: int) -> bytes:
    def attribute(number: int, data: bytes) -> bytes:
        return struct.pack("=HH", len(data) + 4, number) + data + bytes(-len(data) % 4)

    queue = attribute(qdisc.QUEUE, struct.pack("=IIIII", 3, 9000, 7, 0, 11))
    header = struct.pack("=BxxxiIII", 0, 5, 0x10000, parent, 2)
    return header + attribute(1, b"tbf\0") + attribute(qdisc.STATISTICS, queue)


def test_the_root_discipline_of_an_interface() -> None:
    assert qdisc.counters_of(queue_message(qdisc.ROOT)) == (5, (9000, 7, 11))
    assert qdisc.counters_of(queue_message(0x10001)) is None


def test_round_trips_of_a_connection_and_its_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client.sendall(b"something")
        local = sockets.address_of("lo")
        connections = sockets.TcpSockets()
        connections.refresh()
        trip, peer = sockets.PortConnections("lo", local, connections).read()
    assert local == int(ip_address("127.0.0.1"))
    assert trip
    assert peer
    assert ip_address(peer).is_loopback
    assert sockets.PortConnections("lo", 1, connections).read() == [None, None]
    assert sockets.address_of("no-such-device") == 0


def connection_message(last_sent: int = 3, *, prefix: bytes = b"", size: int = 220) -> bytes:
    """Return an entry of the kernel's list, with as much of `struct tcp_info` as a kernel has."""
    info = bytearray(220)
    struct.pack_into("=I", info, sockets.LAST_SENT, last_sent)
    struct.pack_into("=I", info, sockets.RTT, 700)
    struct.pack_into("=QQ", info, sockets.ACKNOWLEDGED, 5_000_000, 300)
    struct.pack_into("=I", info, sockets.AGAIN, 3)
    struct.pack_into("=I", info, sockets.SEGMENTS, 400)
    struct.pack_into("=I", info, sockets.NEEDLESS, 2)
    head = bytearray(sockets.ATTRIBUTES)
    struct.pack_into("!HH", head, sockets.PORTS, 5201, 40_000)
    ends = [(prefix + ip_address(end).packed).ljust(16, b"\0") for end in ("10.1.0.1", "10.1.0.2")]
    struct.pack_into("16s16s", head, sockets.SOURCE, *ends)
    struct.pack_into("=Q", head, sockets.COOKIE, 11)
    struct.pack_into("=II", head, sockets.USER, 1000, 4711)
    return bytes(head) + struct.pack("=HH", 4 + size, netlink.TCP_INFO) + bytes(info[:size])


def test_a_connection_that_sends_nothing_has_no_round_trip() -> None:
    assert sockets.TcpConnection(connection_message(3)).rtt == 700
    assert sockets.TcpConnection(connection_message(60_000)).rtt == 0
    assert sockets.TcpConnection(connection_message(3)[: sockets.ATTRIBUTES]).rtt == 0


def test_a_connection_with_its_ends_owner_and_bytes() -> None:
    ends = int(ip_address("10.1.0.1")), int(ip_address("10.1.0.2"))
    mapped = sockets.TcpConnection(connection_message(prefix=sockets.MAPPED), socket.AF_INET6)
    for link in (sockets.TcpConnection(connection_message()), mapped):
        assert (link.local, link.peer, link.ports) == (*ends, (5201, 40_000))
        assert (link.cookie, link.user, link.inode, link.sent, link.received) == (11, 1000, 4711, 5_000_000, 300)
        assert (link.segments, link.again, link.needless) == (400, 3, 2)
    other = sockets.TcpConnection(connection_message(prefix=b"\xfd" + bytes(11)), socket.AF_INET6)
    assert (other.local, other.peer) == (0, 0)
    old = sockets.TcpConnection(connection_message(size=104))
    assert (old.rtt, old.sent, old.received, old.segments, old.again, old.needless) == (700, None, None, 0, 3, 0)


def test_a_server_that_accepts_both_versions_is_counted_too() -> None:
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client,
        server.accept()[0] as accepted,
    ):
        client.sendall(bytes(1000))
        assert len(accepted.recv(1000, socket.MSG_WAITALL)) == 1000
        connections = sockets.TcpSockets()
        connections.refresh()
        received = [link.received for link in connections.all if link.inode == os.fstat(accepted.fileno()).st_ino]
    assert (connections.are_known, received) == (True, [1000])


def link(
    cookie: int, segments: int, again: int, needless: int = 0, *, local: str = "10.1.0.1", peer: str = "10.1.0.2"
) -> sockets.TcpConnection:
    connection = sockets.TcpConnection(connection_message())
    connection.local, connection.peer = int(ip_address(local)), int(ip_address(peer))
    connection.cookie, connection.segments, connection.again, connection.needless = cookie, segments, again, needless
    return connection


def port_peers(counted: peers.Peers) -> peers.PortPeers:
    return peers.PortPeers("rail0", int(ip_address("10.1.0.1")), counted)


def test_segments_by_peer_add_up_over_connections_that_come_and_go() -> None:
    counted = peers.Peers(["10.1.0.2", "10.1.0.3"])
    counted.add([link(1, 150, 2), link(2, 80, 9, peer="10.1.0.3"), link(3, 500, 50, peer="10.9.9.9")])
    before = port_peers(counted)
    assert before.names == ["segments@10.1.0.2", "retransmits@10.1.0.2", "needless@10.1.0.2"]
    counted.add([])  # the list may lack a connection once
    counted.add(
        [link(1, 200, 3, 1), link(4, 10, 1, 1), link(2, 120, 9, peer="10.1.0.3"), link(5, 7, 0, local="10.2.0.1")]
    )
    assert before.read() == [210, 4, 2]
    now = port_peers(counted)
    assert now.names[3:] == ["segments@10.1.0.3", "retransmits@10.1.0.3", "needless@10.1.0.3"]
    assert now.read() == [210, 4, 2, 120, 9, 0]


def test_the_count_of_a_connection_wraps_and_a_closed_one_is_forgotten() -> None:
    counted = peers.Peers(["10.1.0.2"])
    counted.add([link(1, (1 << 32) - 5, 0)])
    group = port_peers(counted)
    counted.add([link(1, 10, 1)])
    assert group.read() == [(1 << 32) + 10, 1, 0]
    for _ in range(3 * peers.FORGET_AFTER):
        counted.add([])
    counted.add([link(1, 4, 0)])  # another connection: cookies are only unique until the next boot
    assert group.read() == [(1 << 32) + 14, 1, 0]


def test_only_some_peers_are_counted() -> None:
    many = [f"10.1.0.{number}" for number in range(2, 100)]
    counted = peers.Peers(many)
    counted.add([link(number, 1000, 0, peer=peer) for number, peer in enumerate(many)])
    assert len(port_peers(counted).read()) == len(peers.NAMES) * peers.MOST_PEERS


def test_a_peer_is_in_the_layout_once_enough_was_sent_to_it() -> None:
    sources = reader.Sources(reader.ReaderOrder(order(1.0, ["lo"], ["127.77.0.1"])))
    assert "tcp_peer" not in sources.changed_layout()
    with socket.create_server(("127.77.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        taken, _ = server.accept()
        with taken:
            for _ in range(peers.LEAST_SEGMENTS):
                client.sendall(b"x")
                assert taken.recv(1)
            sources.read()
    assert sources.are_outdated()
    sources.scan()
    columns = [(port, name) for _, port, names in json.loads(sources.changed_layout()) for name in names]
    values = dict(zip(columns, sources.read(), strict=True))
    assert (values["lo", "segments@127.77.0.1"] or 0) >= peers.LEAST_SEGMENTS
    assert values["lo", "retransmits@127.77.0.1"] == values["lo", "needless@127.77.0.1"] == 0
    assert not sources.are_outdated()
    sources.close()


def test_a_driver_without_counters() -> None:
    for port in ("lo", "no-such-device"):
        driver = ethtool.EthtoolCounters(port, {"rx_prio3_pause"})
        assert (driver.names, driver.has_changed()) == ([], False)
        driver.close()


def kernel(statistics: dict[str, int]) -> Callable[[Any, Any], None]:
    """Answer a driver's requests as the kernel does, in its memory."""

    def ioctl(_: Any, memory: Any) -> None:
        request = struct.unpack_from("=I", memory)[0]
        if request == ethtool.COUNT:
            struct.pack_into("=IIQI", memory, 0, request, 0, 2, len(statistics))
        elif request == ethtool.STRINGS:
            struct.pack_into("=III", memory, 0, request, 1, len(statistics))
            for place, name in enumerate(statistics):
                struct.pack_into("32s", memory, 12 + 32 * place, name.encode())
        else:
            struct.pack_into("=II", memory, 0, request, len(statistics))
            struct.pack_into(f"={len(statistics)}Q", memory, 8, *statistics.values())

    return ioctl


def test_counters_of_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = {"rx_packets": 1, "rx_prio3_pause": 17, "rx_discards_phy": (1 << 63) + 5}
    monkeypatch.setattr(ethtool.EthtoolCounters, "_ioctl", kernel(statistics))
    driver = ethtool.EthtoolCounters("ens1", {"rx_prio3_pause", "rx_discards_phy"})
    assert driver.names == ["rx_prio3_pause", "rx_discards_phy"]
    assert driver.read() == [17, (1 << 63) + 5]
    statistics["rx_prio4_pause"] = 2
    assert driver.read() == [None, None]
    assert driver.has_changed()
    driver.close()


class FakeNvml:
    """NVIDIA's library with one GPU, which has no power sensor."""

    calls = 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, _handle: Any) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUtilizationRates(self, _handle: Any, result: Any) -> int:  # noqa: N802
        self.calls += 1
        result._obj.gpu = 87
        return 0

    def nvmlDeviceGetMemoryInfo_v2(self, _handle: Any, result: Any) -> int:  # noqa: N802
        assert result._obj.version == ctypes.sizeof(nvml.NvmlMemory) | 2 << 24
        result._obj.used = 40 << 30
        return 0

    def nvmlDeviceGetPowerUsage(self, _handle: Any, _result: Any) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetTemperature(self, _handle: Any, _sensor: Any, result: Any) -> int:  # noqa: N802
        result._obj.value = 61
        return 0


def test_a_gpu_reports_what_it_has() -> None:
    library: Any = FakeNvml()
    gpu = nvml.GpuReader(library, 0)
    assert gpu.names == ["busy", "memory_used_bytes", "temperature"]
    assert gpu.read() == gpu.read() == [87, 40 << 30, 61]
    assert library.calls == 2, "it is not read more than once a second"
    assert nvml.GpuReader(library, 1).names == []
    assert nvml.gpus("libno-such-library.so.1") == []


def test_the_program_by_itself() -> None:
    """It greets, sends its layout, answers heartbeats, samples on a grid, and ends with its input."""
    with subprocess.Popen(["/bin/sh", "-c", READER.command(sys.executable)], stdin=-1, stdout=-1, bufsize=0) as python:
        assert python.stdin
        assert python.stdout
        python.stdin.write(READER.text + order(0.1, ["lo"], []))
        lines = open(python.stdout.fileno(), "rb", closefd=False)  # noqa: SIM115
        assert parse_line(lines.readline()[:-1]) == Greeting(python.pid)
        layout = parse_line(lines.readline()[:-1])
        assert isinstance(layout, LayoutLine)
        assert ("net", "lo") in [(source, port) for source, port, _ in layout.groups]
        begin = (time.monotonic_ns() // 100_000_000 + 2) * 100_000
        python.stdin.write(b"p 1\ng %d\n" % begin)
        answer = parse_line(lines.readline()[:-1])
        assert isinstance(answer, Answer)
        assert answer.number == 1
        for row in [parse_line(lines.readline()[:-1]) for _ in range(3)]:
            assert isinstance(row, Row)
            assert len(row.values) == layout.width
            assert row.time_us >= begin
        python.stdin.close()
        assert python.wait(60) == 0


def test_the_reader_ends_when_heartbeats_stop() -> None:
    """The kernel ends it by the alarm that heartbeats renew, even while nobody reads its output."""
    quick = READER.text.replace(b"LEASE_SECONDS = 60, 10", b"LEASE_SECONDS = 60, 1")
    assert quick != READER.text
    arguments = [sys.executable, "-I", "-S", "-c", FETCH.format(size=len(quick))]
    with subprocess.Popen(arguments, stdin=-1, stdout=-1, bufsize=0) as python:
        assert python.stdin
        python.stdin.write(quick + order(0.1, [], []) + b"p 1\ng 0\n")
        assert python.wait(60) == -signal.SIGALRM


def test_a_python_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railbed.fleet.node_program.OLDEST_PYTHON", (3, 99))
    text = replace(READER).text
    arguments = [sys.executable, "-I", "-S", "-c", FETCH.format(size=len(text))]
    ended = subprocess.run(arguments, input=text, capture_output=True, check=False)
    assert ended.returncode == 1
    assert re.fullmatch(rb"Python 3\.\d+ is too old, sampling needs 3\.99\n", ended.stderr)


def test_the_program_needs_only_the_standard_library() -> None:
    imported = json.loads(
        subprocess.run(
            [
                *(sys.executable, "-I", "-S", "-c"),
                "import sys, json; before = set(sys.modules); sys.stdin.close\n"
                "exec(sys.stdin.read().replace('package.reader.main()', ''))\n"
                "print(json.dumps(sorted(set(sys.modules) - before)))",
            ],
            input=READER.text,
            capture_output=True,
            check=True,
        ).stdout
    )
    assert not {"asyncio", "pathlib", "typing", "ctypes", "subprocess"} & set(imported), imported
    assert os.sep not in "".join(imported)
