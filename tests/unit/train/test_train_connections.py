"""The kernel's view of TCP connections: read from netlink to the byte, and added up between readings."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from railbed.model.statistics import Range
from railbed.train.network.connections import (
    SENT_AT,
    SOCKET,
    Connection,
    addresses,
    connection,
    connections,
)
from railbed.train.network.tcp import TcpReading, TcpSentBytes, tcp_sent_between
from railbed.train.worker.observe.connections import ConnectionTotals, Snapshot, Watch, siblings, sockets_of
from railbed.train.worker.observe.counters import data_segments
from railbed.transport.netlink import ATTRIBUTE, CONNECTIONS, TCP_INFO, Unreadable

RECORDED = [
    bytes.fromhex(block)
    for block in (Path(__file__).parent.parent.parent / "cases/netlink/connections.hex").read_text().split("\n\n")
    if block.strip()
]
"""What Linux 6.18 answered to the two questions, for IPv4 and IPv6, while three connections stood on its loopback."""
HERE, THERE = "127.83.7.1", "127.83.7.2"
"""Two loopback addresses that nothing else uses, standing in for two machines."""
pytestmark = pytest.mark.xdist_group("ranks")  # a test would count what another one sends at the same time
LOOPBACK_FRAME = 65536 + 18


def understood(answers: list[bytes]) -> list[Connection]:
    return [parsed for entry in CONNECTIONS.entries(answers) if (parsed := connection(entry))]


def with_info(info: bytes) -> bytes:
    """Return the entry of a recorded connection with another `tcp_info`."""
    entry = next(CONNECTIONS.entries(RECORDED[:2]))
    return entry[: SOCKET.size] + ATTRIBUTE.pack(4 + len(info), TCP_INFO) + info


class TestRecorded:
    def test_bytes_of_every_connection(self) -> None:
        assert {(connection.local, connection.remote, connection.sent) for connection in understood(RECORDED[:2])} == {
            ("127.0.0.1", "127.0.0.2", 12345),
            ("127.0.0.2", "127.0.0.1", 1),
            ("127.0.0.3", "127.0.0.4", 0),
        }
        # The second is an IPv4 connection of a socket that listens to both.
        assert {(connection.local, connection.remote, connection.sent) for connection in understood(RECORDED[2:])} == {
            ("::1", "::1", 70000),
            ("127.0.0.4", "127.0.0.3", 999),
            ("::1", "::1", 0),
        }

    def test_what_was_sent_again_counts_once(self) -> None:
        repeated = connection(with_info(bytes(SENT_AT) + struct.pack("=QQ", 5000, 1400)))
        assert repeated
        assert repeated.sent == 3600

    def test_a_kernel_that_does_not_count_bytes(self) -> None:
        """Linux 4.18 ends `tcp_info` before tcpi_bytes_sent."""
        with pytest.raises(Unreadable, match="this kernel does not count the bytes"):
            connection(with_info(bytes(SENT_AT)))

    def test_what_is_left_of_a_connection_that_is_over_counts_nothing(self) -> None:
        assert connection(next(CONNECTIONS.entries(RECORDED[:2]))[: SOCKET.size]) is None


@contextmanager
def pair(family: int = socket.AF_INET, here: str = HERE, there: str = THERE) -> Iterator[tuple[socket.socket, ...]]:
    mapped = there.startswith("::ffff:")
    with (
        socket.create_server((there, 0), family=family, dualstack_ipv6=mapped) as server,
        socket.socket(family) as client,
    ):
        client.bind((here, 0))
        client.connect(server.getsockname()[:2])
        other, _ = server.accept()
        with other:
            yield client, other


def send(sender: socket.socket, receiver: socket.socket, size: int) -> None:
    left = size
    while left:
        part = min(left, 50_000)
        sender.sendall(bytes(part))
        assert len(receiver.recv(part, socket.MSG_WAITALL)) == part
        left -= part


def sent_by(sender: socket.socket) -> int:
    inode = os.fstat(sender.fileno()).st_ino
    return next(connection.sent for connection in connections() if connection.inode == inode)


@pytest.mark.parametrize(
    ("family", "here", "there"),
    [
        (socket.AF_INET, HERE, THERE),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, f"::ffff:{HERE}", f"::ffff:{THERE}"),
    ],
    ids=["ipv4", "ipv6", "mapped"],
)
def test_real_connections_to_the_byte(family: int, here: str, there: str) -> None:
    with pair(family, here, there) as (client, server):
        assert (sent_by(client), sent_by(server)) == (0, 0)
        send(client, server, 1_234_567)
        send(server, client, 89)
        assert (sent_by(client), sent_by(server)) == (1_234_567, 89)


def test_addresses_have_their_interface() -> None:
    assert addresses()["127.0.0.1"] == "lo"


def look(processes: list[int]) -> Snapshot:
    return Snapshot(connections=connections(), addresses={HERE: "rail0"}, sockets=sockets_of(processes))


def watch(processes: list[int]) -> Watch:
    return Watch(lambda: look(processes), data_segments)


def moved(before: dict[str, Any], after: dict[str, Any]) -> TcpSentBytes:
    first, last = TcpReading.of(before), TcpReading.of(after)
    assert first
    assert last
    return tcp_sent_between(first, last, LOOPBACK_FRAME)


STRANGER = """
import socket, sys
with socket.create_connection((sys.argv[2], int(sys.argv[3])), source_address=(sys.argv[1], 0)) as client:
    client.sendall(bytes(int(sys.argv[4])))
    sys.stdin.read()
"""
"""Sends bytes from an address to another one, and keeps the connection until its input ends."""


class TestWatch:
    def test_what_ranks_sent_and_what_they_sent_before(self) -> None:
        with pair() as (client, server), pair() as (other, other_server):
            send(client, server, 777)
            watched = watch([os.getpid()])
            watched.open()
            begin = watched.read()
            send(client, server, 500_000)
            send(other, other_server, 20_000)
            send(server, client, 300_000)  # from the other machine
            assert moved(begin, watched.read()).ranks == {"rail0": 520_000}
            watched.close()

    def test_what_another_program_sends_is_not_the_ranks(self) -> None:
        with socket.create_server((THERE, 0)) as server, pair() as (client, end):
            watched = watch([os.getpid()])
            watched.open()
            begin = watched.read()
            address = (THERE, str(server.getsockname()[1]))
            command = [sys.executable, "-IS", "-c", STRANGER, HERE, *address, "400000"]
            with subprocess.Popen(command, stdin=subprocess.PIPE):  # ends with its input
                taken, _ = server.accept()
                with taken:
                    assert len(taken.recv(400_000, socket.MSG_WAITALL)) == 400_000
                    send(client, end, 1000)
                    counted = moved(begin, watched.read())
            watched.close()
        assert (counted.ranks["rail0"], counted.others["rail0"]) == (1000, 400_000)

    def test_a_connection_between_two_looks_is_bounded_by_its_segments(self) -> None:
        watched = watch([os.getpid()])
        reading = watched.read()
        with pair() as (client, server):
            send(client, server, 3_000_000)
            client.close()
            assert server.recv(1) == b""
        counted = moved(reading, watched.read())
        assert counted.ranks.get("rail0", 0) <= 3_000_000
        assert counted.unclear.most is not None
        assert counted.ranks.get("rail0", 0) + counted.unclear.most >= 3_000_000

    def test_bytes_that_wait_in_a_send_queue_leave_before_the_last_reading(self) -> None:
        with pair() as (client, server):
            watched = watch([os.getpid()])
            begin = watched.read()
            client.setblocking(False)
            sent = client.send(bytes(30_000_000))  # the receiver's buffer is full, the rest waits
            reader = threading.Timer(0.2, lambda: server.recv(sent, socket.MSG_WAITALL))
            reader.start()
            assert moved(begin, watched.read()).ranks["rail0"] < sent
            watched.settle()
            assert moved(begin, watched.read()).ranks["rail0"] == sent
            reader.join()

    def test_a_peer_that_never_reads_does_not_hold_up_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("railbed.train.worker.observe.connections.SETTLE_SECONDS", 0.1)
        with pair() as (client, _):
            client.setblocking(False)
            client.send(bytes(30_000_000))
            watch([os.getpid()]).settle()

    def test_why_it_is_not_known(self) -> None:
        def refuse() -> Snapshot:
            raise Unreadable("no such kernel")

        refused = Watch(refuse, data_segments)
        refused.open()
        assert refused.read() == {"reason": "no such kernel"}
        refused.close()
        silent = Watch(lambda: look([]), lambda: None)
        assert silent.read() == {"reason": "the kernel does not count TCP's segments with data"}

    def test_ranks_are_the_processes_of_one_parent(self) -> None:
        assert os.getpid() in siblings()
        assert os.getppid() not in siblings()

    def test_a_process_that_ended_has_no_sockets_and_one_that_hides_them_is_not_a_guess(self, tmp_path: Path) -> None:
        assert sockets_of([7], tmp_path) == frozenset()
        (tmp_path / "8").mkdir()
        (tmp_path / "8/fd").write_text("no folder")
        assert sockets_of([8], tmp_path) is None


def connection_with(cookie: int, sent: int, **changes: Any) -> Connection:
    usual = {"inode": 5, "local": "10.1.0.1", "remote": "10.1.0.2", "segments": 0, "again": 0}
    return Connection(cookie=cookie, sent=sent, **{**usual, **changes})


def snapshot(*connections: Connection, sockets: frozenset[int] | None = frozenset({5})) -> Snapshot:
    own = {"10.1.0.1": "rail0", "10.1.0.9": "rail1", "127.0.0.1": "lo"}
    return Snapshot(connections=connections, addresses=own, sockets=sockets)


class TestBooks:
    def test_new_connections_count_from_their_first_byte(self) -> None:
        totals = ConnectionTotals()
        totals.add(snapshot(connection_with(1, 1000)), begin=True)
        totals.add(snapshot(connection_with(1, 1500), connection_with(2, 70)))
        assert totals.sums.ranks == {"rail0": 570}

    def test_a_list_that_lacks_a_connection_or_has_it_twice(self) -> None:
        totals = ConnectionTotals()
        totals.add(snapshot(connection_with(1, 1000, segments=10)), begin=True)
        totals.add(snapshot())
        totals.add(snapshot(connection_with(1, 1500, segments=15), connection_with(1, 1500, segments=15)))
        assert (totals.sums.ranks, totals.sums.segments) == ({"rail0": 500}, 5)

    def test_segments_wrap(self) -> None:
        totals = ConnectionTotals()
        totals.add(snapshot(connection_with(1, 0, segments=2**32 - 3)), begin=True)
        totals.add(snapshot(connection_with(1, 0, segments=4)))
        assert totals.sums.segments == 7
        totals.add(snapshot(connection_with(1, 0, segments=9, again=2)))
        assert totals.sums.segments == 10

    def test_what_stays_on_the_machine_does_not_count_but_its_segments_do(self) -> None:
        totals = ConnectionTotals()
        totals.add(snapshot(), begin=True)
        totals.add(snapshot(connection_with(1, 500, segments=3, remote="10.1.0.9")))
        assert (totals.sums.ranks, totals.sums.segments) == ({}, 3)

    def test_a_socket_that_was_closed_and_still_sends(self) -> None:
        totals = ConnectionTotals()
        totals.add(snapshot(connection_with(1, 0)), begin=True)
        totals.add(snapshot(connection_with(1, 800, inode=0), sockets=frozenset()))
        totals.add(snapshot(connection_with(2, 30, inode=0), sockets=frozenset()))
        assert (totals.sums.ranks, totals.sums.unclear) == ({"rail0": 800}, 30)

    def test_owners_that_hide(self) -> None:
        totals = ConnectionTotals()
        totals.add(snapshot(connection_with(1, 40), sockets=None))
        assert (totals.sums.ranks, totals.sums.others, totals.sums.unclear) == ({}, {}, 40)


def test_segments_with_data_are_those_of_the_kernel(tmp_path: Path) -> None:
    """At least as many as ours, and no acknowledgement is among them."""
    before = data_segments()
    with pair() as (client, server):
        watched = ConnectionTotals()
        watched.add(look([os.getpid()]), begin=True)
        for _ in range(400):
            send(client, server, 10)
        watched.add(look([os.getpid()]))
    after = data_segments()
    assert before is not None
    assert after is not None
    assert after - before >= 400
    assert watched.sums.segments >= 400
    assert data_segments(tmp_path / "none") is None
    (tmp_path / "netstat").write_text("TcpExt: A TCPOrigDataSent\nTcpExt: 1 7\nIpExt: B\nIpExt: 2\n")
    assert data_segments(tmp_path / "netstat") == 7


def test_what_no_connection_accounts_for() -> None:
    def reading(early: int, late: int, segments: int, unclear: int = 0) -> TcpReading:
        return TcpReading(node_segments=(early, late), segments=segments, ranks={}, others={}, unclear=unclear)

    assert tcp_sent_between(reading(100, 105, 0), reading(300, 310, 190, 7), 1500).unclear == Range(0, 20 * 1500 + 7)
    assert tcp_sent_between(reading(100, 105, 0), reading(300, 310, 500), 1500).unclear == Range(0, 0)
