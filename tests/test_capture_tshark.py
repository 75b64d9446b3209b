"""tshark reads the same files, and is the referee for every field that it knows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from railbed.capture.files import read_recording
from railbed.capture.opcodes import OPCODES, IbTransport
from railbed.capture.packets import NO_SYNDROME, NO_VLAN, Bit, Kind
from tests.captures import files, headers, tshark
from tests.captures.truth import Packet, other_frames
from tests.unit.capture.test_capture_files import variety

pytestmark = pytest.mark.tshark

KNOWN = [
    code
    for code, opcode in OPCODES.items()
    if opcode.transport not in (IbTransport.RD, IbTransport.XRC) and code & 31 < 0x18
]
"""Opcodes whose extended headers this Wireshark knows. It takes RD, which no card has, for Mellanox's DC, and skips
eight bytes that RD does not have."""
BASE = {"opcode": "opcode", "psn": "psn", "qp": "destqp", "key": "p_key"}
BITS = {Bit.ACK_REQUEST: "a", Bit.SOLICITED: "se", Bit.MIGRATION: "m"}
EXTENDED = {"syndrome": "aeth.syndrome", "msn": "aeth.msn", "message": "reth.dmalen", "source_qp": "deth.srcqp"}
ABSENT = {"syndrome": NO_SYNDROME}
FIELDS = [
    *("frame.number", "frame.time_epoch", "frame.len", "udp.srcport", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"),
    *("infiniband.grh.sgid", "infiniband.grh.dgid", "ip.dsfield", "ipv6.tclass", "infiniband.grh.tclass"),
    *("vlan.id", "vlan.priority", "vlan.dei", "macc.opcode", "macc.pause_time", "macc.cbfc.enbv", "eth.src"),
    *(f"infiniband.bth.{name}" for name in (*BASE.values(), *BITS.values())),
    *(f"infiniband.{name}" for name in EXTENDED.values()),
    *(f"macc.cbfc.pause_time.c{priority}" for priority in range(8)),
]
MIRRORS = ("", "", "erspan2", "erspan3", "erspan3+")


def random_packets(count: int) -> list[Packet]:
    number = random.Random(18)  # noqa: S311
    packets = []
    for place in range(count):
        version6, roce1 = number.random() < 0.3, number.random() < 0.1
        ends: dict[str, Any] = {"source": f"10.0.{place % 7}.1", "destination": "10.9.0.1"}
        if version6 or roce1:
            ends = {"source": f"fd00::{place % 7 + 1}", "destination": "fd00::99"}
        packet = Packet(
            **ends,
            kind=Kind.ROCE1 if roce1 else Kind.ROCE2,
            time=place * 1_234_567_891,
            opcode=number.choice([code for code in KNOWN if code != 0x81]),
            source_port=number.randrange(0xC000, 1 << 16),
            tos=number.randrange(256),
            tags=number.choice(((), (), ((0x8100, number.randrange(0xFFFF)),), ((0x8100, 5), (0x8100, 9)))),
            qp=number.randrange(1 << 24),
            source_qp=number.randrange(1 << 24),
            psn=number.randrange(1 << 24),
            bits=number.randrange(32) & ~int(Bit.FECN | Bit.BECN),
            key=number.randrange(1 << 16),
            payload=number.randrange(200),
            syndrome=number.randrange(128),
            msn=number.randrange(1 << 24),
            message=number.randrange(1 << 32),
            mirrored=number.choice(MIRRORS),
        )
        packets.append(packet)
    return packets


def expected_of(fields: dict[str, list[str]]) -> dict[str, Any]:
    """Return a row as tshark sees it; with ERSPAN, the last occurrence is the inner packet's."""

    def last(*names: str, default: Any = None) -> Any:
        return next((fields[name][-1] for name in names if fields[name]), default)

    seconds, _, nanoseconds = last("frame.time_epoch").partition(".")
    row: dict[str, Any] = {"time": int(seconds) * 10**9 + int(nanoseconds), "length": int(last("frame.len"))}
    if fields["macc.opcode"]:
        return row | {"number": int(last("frame.number"))}
    row["source"] = last("infiniband.grh.sgid", "ipv6.src", "ip.src")
    row["destination"] = last("infiniband.grh.dgid", "ipv6.dst", "ip.dst")
    if fields["ip.src"] and (fields["ipv6.src"] or fields["infiniband.grh.sgid"]):
        row["tos"] = int(last("infiniband.grh.tclass", "ipv6.tclass"), 0)
    else:
        row["tos"] = int(last("infiniband.grh.tclass", "ipv6.tclass", "ip.dsfield"), 0)
    row["source_port"] = int(last("udp.srcport", default="0"))
    for name, field in BASE.items():
        row[name] = int(last(f"infiniband.bth.{field}"), 0)
    row["bits"] = sum(int(bit) for bit, field in BITS.items() if last(f"infiniband.bth.{field}") in ("1", "True"))
    if row["opcode"] in KNOWN:
        for name, field in EXTENDED.items():
            row[name] = int(last(f"infiniband.{field}", default=str(ABSENT.get(name, 0))), 0)
    row["vlan"] = NO_VLAN
    if fields["vlan.id"]:
        priority, eligible = int(fields["vlan.priority"][0]), fields["vlan.dei"][0] in ("1", "True")
        row["vlan"] = priority << 13 | eligible << 12 | int(fields["vlan.id"][0])
    return row | {"number": int(last("frame.number"))}


@pytest.mark.parametrize("write", [files.pcap, files.pcapng], ids=["pcap", "pcapng"])
def test_every_field_is_as_tshark_has_it(tmp_path: Path, write: Any) -> None:
    outer = [packet for packet in variety() if not packet.tags or packet.tags[0][0] == 0x8100]
    packets = [*(packet for packet in outer if packet.mirrored != "erspan1"), *random_packets(300)]
    written = [*files.records(packets), *files.other_records(other_frames()), *files.records(packets[:40], snap=96)]
    path = tmp_path / "file"
    path.write_bytes(write(written))
    recording = read_recording(path)
    rows = tshark.fields_of(path, FIELDS)
    assert len(rows) == recording.total
    decoded = [fields for fields in rows if fields["infiniband.bth.opcode"] or fields["macc.opcode"]]
    assert len(decoded) == len(recording.packets)
    for index, fields in enumerate(decoded):
        expected = expected_of(fields)
        actual = {name: recording.packets[name][index].item() for name in expected}
        if "source" in expected:
            actual |= {end: recording.packets.addresses[actual[end]] for end in ("source", "destination")}
            actual["bits"] &= sum(BITS)
        assert actual == expected, fields


def test_pause_frames_are_as_tshark_has_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(files.pcap(files.records(packet for packet in variety() if packet.is_pause)))
    pauses = read_recording(path).packets.pauses
    first, second = tshark.fields_of(path, FIELDS)
    assert int(first["macc.cbfc.enbv"][0], 0) == pauses.classes[0]
    assert [int(first[f"macc.cbfc.pause_time.c{priority}"][0]) for priority in range(8)] == pauses.quanta[0].tolist()
    assert [int(second["macc.pause_time"][0])] * 8 == pauses.quanta[1].tolist()
    assert first["eth.src"] == [headers.SOURCE_MAC.hex(":")]
    assert pauses.sender.tolist() == [int.from_bytes(headers.SOURCE_MAC, "big")] * 2
