"""Lists from the kernel: read as a whole, or not at all."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.fleet.sample.node import qdisc, sockets
from railbed.train.network.connections import ADDRESSES, connection, interface_address
from railbed.transport import netlink
from railbed.transport.netlink import (
    ATTRIBUTE,
    BY_FAMILY,
    CONNECTIONS,
    DONE,
    ERROR,
    HEADER,
    KernelList,
    Unreadable,
    attributes,
)

RECORDED = [
    bytes.fromhex(block)
    for block in (Path(__file__).parent.parent.parent / "cases/netlink/connections.hex").read_text().split("\n\n")
    if block.strip()
][:2]
"""Linux 6.18's list of the connections over IPv4, and its end."""
READERS: list[tuple[KernelList, Callable[[bytes], object]]] = [
    (CONNECTIONS, connection),
    (CONNECTIONS, sockets.TcpConnection),
    (ADDRESSES, interface_address),
    (qdisc.DISCIPLINES, qdisc.counters_of),
]
"""Everything that reads a list."""


def message(kind: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, 0, 1, 0) + body + bytes(-len(body) % 4)


END = message(DONE, bytes(4))


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([message(ERROR, struct.pack("=i", -errno.ENOENT))], "No such file or directory"),
        ([RECORDED[0], message(ERROR, struct.pack("=i", -errno.EPERM))], "Operation not permitted"),
        ([message(ERROR, struct.pack("=i", 5))], "error -5"),
        ([message(ERROR, b"")], "an error without a number"),
        (RECORDED[:1], "does not end"),
        ([], "does not end"),
        ([b"", *RECORDED], "is truncated"),
        ([RECORDED[0][:-1], END], "is truncated in a message"),
        ([RECORDED[0] + bytes(8), END], "is truncated in a message"),
        ([HEADER.pack(0, BY_FAMILY, 0, 1, 0)], "is truncated in a message"),
        ([message(BY_FAMILY, bytes(71)), END], "has an entry that is too short"),
    ],
)
def test_a_list_with_a_gap_is_refused(answers: Sequence[bytes], reason: str) -> None:
    with pytest.raises(Unreadable, match=f"TCP connections.*{reason}"):
        list(CONNECTIONS.entries(answers))


def test_messages_of_other_kinds_are_no_entries() -> None:
    assert list(CONNECTIONS.entries([message(99, b"?"), *RECORDED])) == list(CONNECTIONS.entries(RECORDED))


@pytest.mark.parametrize("length", [0, 3, 9, 0xFFFF])
def test_a_truncated_attribute_is_refused(length: int) -> None:
    with pytest.raises(Unreadable, match="truncated attribute"):
        attributes(ATTRIBUTE.pack(8, 1) + bytes(4) + ATTRIBUTE.pack(length, 2) + bytes(4))


def test_flags_are_not_part_of_the_kind_of_an_attribute() -> None:
    assert attributes(ATTRIBUTE.pack(5, 0x8007) + b"x\0\0\0") == {7: b"x"}


@pytest.mark.parametrize(("listed", "parse"), READERS)
@given(data=st.data())
def test_foreign_answers(listed: KernelList, parse: Callable[[bytes], object], data: st.DataObject) -> None:
    """Cut off, changed or made up: they are understood or unreadable, and reading ends."""
    stream = b"".join(RECORDED)
    cut = data.draw(st.integers(0, len(stream)))
    changed = bytearray(stream[:cut])
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(stream)), st.integers(0, 255)), max_size=20)):
        if at < cut:
            changed[at] = byte
    foreign = bytes(changed) + data.draw(st.binary(max_size=80))
    with suppress(Unreadable):
        for entry in listed.entries([foreign]):
            parse(entry)


@pytest.mark.parametrize(("listed", "parse"), READERS)
@given(body=st.binary(max_size=200))
def test_foreign_entries(listed: KernelList, parse: Callable[[bytes], object], body: bytes) -> None:
    kinds = {CONNECTIONS: BY_FAMILY, ADDRESSES: 20, qdisc.DISCIPLINES: qdisc.NEW}
    with suppress(Unreadable):
        for entry in listed.entries([message(kinds[listed], body), END]):
            parse(entry)


@pytest.mark.parametrize("answer", [message(ERROR, struct.pack("=i", -errno.ENOENT)), RECORDED[0][:-1], b""])
def test_a_node_whose_list_is_damaged_counts_nothing(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is neither zero nor what was read before the damage."""
    monkeypatch.setattr(socket, "socket", lambda *_: Kernel([RECORDED[0], answer]))
    connections, disciplines = sockets.TcpSockets(), qdisc.Disciplines()
    connections.are_known, disciplines.counters = True, {1: (0, 0, 0)}
    connections.refresh()
    disciplines.refresh()
    assert (connections.are_known, connections.all, connections.slowest) == (False, [], {})
    assert disciplines.counters == {}


class Kernel:
    """A socket that has these answers."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def settimeout(self, seconds: float) -> None:
        pass

    def sendto(self, data: bytes, address: tuple[int, int]) -> None:
        pass

    def recv(self, _size: int) -> bytes:
        return self._answers.pop(0)


def test_a_kernel_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(Kernel, "recv", lambda *_: (_ for _ in ()).throw(TimeoutError("timed out")))
    monkeypatch.setattr(socket, "socket", lambda *_: Kernel([]))
    with pytest.raises(Unreadable, match="the kernel does not list its addresses: timed out"):
        ADDRESSES.read(b"")


def test_a_request_that_the_kernel_refuses() -> None:
    unknown = KernelList("dreams", netlink.SOCK_DIAG, 999, 999, 1)
    with pytest.raises(Unreadable, match="the kernel does not list its dreams: ") as caught:
        unknown.read(bytes(72))
    assert os.strerror(errno.EINVAL) in str(caught.value)


def test_the_connections_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        entries = CONNECTIONS.read(netlink.select_connections(socket.AF_INET, 1 << 1))
        inodes = {sockets.TcpConnection(entry).inode for entry in entries}
        assert os.fstat(client.fileno()).st_ino in inodes
