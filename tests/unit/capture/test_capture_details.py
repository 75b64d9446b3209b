"""Every header of single packets, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.captures import files, headers
from tests.captures.flows import Flow
from tests.captures.transport import IMMEDIATE, REMOTE_KEY, VIRTUAL_ADDRESS
from tests.captures.truth import START, Packet, cnp, other_frames, pause, pfc
from tests.unit.capture.test_capture_files import variety

from railbed.capture.files import packet_details, packets_details, read_recording
from railbed.capture.packets import NO_SYNDROME, NO_VLAN, Icrc, Kind
from railbed.errors import CaptureFileError


def details_of(tmp_path: Path, packets: list[Packet], *, snap: int = files.SNAP_LENGTH) -> list[dict[str, Any]]:
    path = tmp_path / "file.pcap"
    path.write_bytes(files.pcap(files.records(packets, snap=snap)))
    return packets_details(path, range(1, len(packets) + 1))


def test_a_write(tmp_path: Path) -> None:
    packet = Flow(psn=9).write(2000, tags=((0x8100, 0x6064),))[0]
    (details,) = details_of(tmp_path, [packet])
    assert details.pop("ICRC")["right"] is True
    assert details == {
        "number": 1,
        "time": START,
        "length": packet.length,
        "captured": packet.length,
        "Ethernet": {"source": "02:00:00:00:00:01", "destination": "02:00:00:00:00:02"},
        "VLAN": [{"priority": 3, "drop_eligible": 0, "id": 100}],
        "IPv4": {
            "source": "10.0.0.1",
            "destination": "10.0.0.2",
            "dscp": 26,
            "ecn": 2,
            "hops": 64,
            "length": packet.length - 18,
        },
        "UDP": {"source_port": 50000, "destination_port": 4791, "length": packet.length - 38},
        "BTH": {
            "opcode": 6,
            "operation": "RC RDMA WRITE First",
            "key": 0xFFFF,
            "pad": 0,
            "qp": 0x11,
            "psn": 9,
            "version": 0,
            "ack_request": 0,
            "solicited": 0,
            "migration": 0,
            "fecn": 0,
            "becn": 0,
        },
        "RETH": {"address": VIRTUAL_ADDRESS, "key": REMOTE_KEY, "length": 2000},
        "payload": 1024,
    }


def test_other_headers(tmp_path: Path) -> None:
    flow = Flow()
    packets = [
        flow.ack(7, syndrome=0x1F),
        flow.nak(8),
        flow.rnr(9),
        Packet(opcode=0x65, source_qp=5),
        Packet(opcode=0x13),
    ]
    packets += [Packet(opcode=0x12), pfc({3: 9}), pause(5), cnp(), Packet(opcode=0xB7), Packet(mirrored="erspan3+")]
    entries = details_of(tmp_path, packets)
    assert [entry["AETH"]["answer"] for entry in entries[:3]] == ["ACK", "NAK: PSN sequence error", "RNR NAK"]
    assert (entries[3]["DETH"]["source_qp"], entries[3]["ImmDt"]["value"]) == (5, IMMEDIATE)
    assert entries[4]["AtomicETH"]["swap_or_add"] == 1
    assert entries[5]["AtomicAckETH"] == {"original": 4711}
    assert entries[6]["PFC"] == {"quanta": {3: 9}}
    assert entries[7]["pause"] == {"quanta": 5}
    assert entries[8]["BTH"]["becn"] == 1
    assert (entries[9]["XRCETH"], entries[9]["IETH"]) == ({"receive_queue": 0x888}, {"key": REMOTE_KEY})
    assert entries[10]["mirrored_by"]["ERSPAN"]["version"] == 3
    assert entries[10]["IPv4"]["source"] == "10.0.0.1"


def test_details_agree_with_the_columns(tmp_path: Path) -> None:
    """Two decoders that share no code come to the same result."""
    packets = variety()
    entries = details_of(tmp_path, packets)
    recording = read_recording(tmp_path / "file.pcap")
    for row, details in enumerate(entries):
        columns = {name: column[row].item() for name, column in recording.packets.columns.items()}
        assert (columns["number"], columns["time"]) == (details["number"], details["time"])
        if columns["kind"] in (Kind.PFC, Kind.PAUSE):
            continue
        base, network = details["BTH"], details.get("IPv4") or details.get("IPv6") or details["GRH"]
        assert {name: base[name] for name in ("opcode", "qp", "psn", "key")} == {
            name: columns[name] for name in ("opcode", "qp", "psn", "key")
        }
        assert network["source"] == recording.packets.addresses[columns["source"]]
        assert network["dscp"] << 2 | network["ecn"] == columns["tos"]
        assert details["payload"] == columns["payload"]
        assert details.get("AETH", {}).get("syndrome", NO_SYNDROME) == columns["syndrome"]
        assert details.get("RETH", {}).get("length", 0) == columns["message"]
        assert details.get("DETH", {}).get("source_qp", 0) == columns["source_qp"]
        results = {None: Icrc.NOT_CAPTURED, True: Icrc.RIGHT, False: Icrc.WRONG}
        assert results[details["ICRC"]["right"]] == columns["icrc"]
        tag = details.get("VLAN", [None])[0]
        assert columns["vlan"] == (tag["priority"] << 13 | tag["drop_eligible"] << 12 | tag["id"] if tag else NO_VLAN)


def test_what_was_not_recorded(tmp_path: Path) -> None:
    packet = Flow().write(2000)[0]
    assert details_of(tmp_path, [packet], snap=60)[0]["left_out"] == "cut off in the RETH header"
    assert details_of(tmp_path, [packet], snap=50)[0]["left_out"] == "cut off before the transport header"
    assert "ICRC" not in details_of(tmp_path, [packet], snap=96)[0]
    path = tmp_path / "file.pcap"
    fragment = headers.ethernet(0x0800) + headers.ip("10.0.0.1", "10.0.0.2", 9, fragment=7) + bytes(9)
    frames = [*other_frames(), fragment, headers.ethernet(0x0800) + bytes(30)]
    path.write_bytes(files.pcap(files.other_records(frames)))
    reasons = [details["left_out"] for details in packets_details(path, range(1, 7))]
    assert reasons == ["not RoCE"] * 4 + ["a later fragment of an IP packet", "malformed headers"]


def test_a_packet_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    path.write_bytes(files.pcap(files.records([Packet()])))
    assert packet_details(path, 1)["BTH"]["opcode"] == 4
    for number in (0, 2):
        with pytest.raises(CaptureFileError, match=f"has no packet {number}: it has 1"):
            packet_details(path, number)
