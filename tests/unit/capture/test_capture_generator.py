"""The generator of captures is itself right: the real packet, lengths, messages, acknowledgements."""

from __future__ import annotations

import pytest
from tests.captures import headers
from tests.captures.crc import icrc
from tests.captures.flows import Flow, in_order, marked
from tests.captures.transport import extended_headers
from tests.captures.truth import Packet, cnp, pause, pfc, recorded

from railbed.capture.opcodes import OPCODES, opcode_name
from railbed.capture.packets import COLUMNS, Kind

CONNECTX_CNP = bytes.fromhex(
    "45c2003c718c4000401191610a0011010a001201"  # IPv4
    "000012b700280000"  # UDP
    "8100ffff4000011800000000" + 16 * "00" + "82fd002a"
)


def test_the_icrc_is_that_of_a_real_card() -> None:
    assert icrc(CONNECTX_CNP[:20], CONNECTX_CNP[20:28], CONNECTX_CNP[28:-4]) == CONNECTX_CNP[-4:]
    made = cnp(source="10.0.17.1", destination="10.0.18.1", qp=0x118)
    assert made.packet[20:-4] == CONNECTX_CNP[20:-4]


@pytest.mark.parametrize("opcode", sorted(OPCODES))
def test_the_extended_headers_of_every_opcode_have_the_same_length_as_in_the_table(opcode: int) -> None:
    assert len(extended_headers(Packet(opcode=opcode))) == OPCODES[opcode].header_bytes


@pytest.mark.parametrize(
    "packet",
    [
        Packet(payload=7, tags=((0x88A8, 5), (0x8100, 0x6064))),
        Packet(source="fd00::1", destination="fd00::2", between=headers.extensions((0, 60))),
        Packet(kind=Kind.ROCE1, source="fe80::1", destination="fe80::2", opcode=0x64),
        Packet(between=bytes(4), opcode=0x0B),
        cnp(),
    ],
    ids=["tags", "extensions", "version 1", "options", "CNP"],
)
def test_the_length_is_that_of_the_frame(packet: Packet) -> None:
    assert packet.length == len(packet.frame)


def test_a_message_is_cut_and_acknowledged() -> None:
    flow = Flow(psn=(1 << 24) - 2)
    packets = [*flow.write(3000), flow.ack(), flow.notify()]
    assert [packet.opcode for packet in packets] == [0x06, 0x07, 0x08, 0x11, 0x81]
    assert [packet.psn for packet in packets[:4]] == [(1 << 24) - 2, (1 << 24) - 1, 0, 0]
    assert [packet.payload for packet in packets[:3]] == [1024, 1024, 952]
    assert packets[3].destination == "10.0.0.1"
    assert [opcode_name(packet.opcode) for packet in flow.read(1500)][1:] == [
        "RC RDMA READ Response First",
        "RC RDMA READ Response Last",
    ]


def test_a_recording_without_a_file() -> None:
    flow = Flow()
    packets = in_order([marked(packet) for packet in flow.write(2000)], [flow.ack(), pfc({3: 0xFFFF}), pause(7)])
    recording = recorded(packets, device="node1")
    assert recording.total == len(recording.packets) == 5
    assert {name: column.dtype for name, column in recording.packets.columns.items()} == {
        name: COLUMNS[name] for name in COLUMNS.names or ()
    }
    assert recording.packets.addresses == ("10.0.0.1", "10.0.0.2")
    assert recording.packets.pauses.quanta.tolist() == [[0, 0, 0, 0xFFFF, 0, 0, 0, 0], [7] * 8]
    assert (recording.packets["tos"] & 3).tolist() == [3, 0, 0, 3, 2]
