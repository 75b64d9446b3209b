"""Capture files in all their forms: whatever was written is read, exactly."""

from __future__ import annotations

import gzip
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.captures import files, headers
from tests.captures.compare import differences
from tests.captures.files import Interface, Record
from tests.captures.flows import Flow, in_order, marked
from tests.captures.truth import START, Packet, cnp, other_frames, pause, pfc, recorded

from railbed.capture.files import addresses as addresses_module
from railbed.capture.files import columns, read_recording
from railbed.capture.files import reader as reader_module
from railbed.capture.files import source as source_module
from railbed.capture.files.columns import EngineName
from railbed.capture.files.source import zstd_module
from railbed.capture.opcodes import OPCODES
from railbed.capture.packets import Bit, Icrc, Kind, Recording
from railbed.errors import CaptureFileError, ToolMissing
from railbed.model.text import plural

FIXTURE = Path(__file__).parents[4] / "shared" / "fixtures" / "pcap" / "cnp_connectx4lx.pcap"
V6: dict[str, Any] = {"source": "fd00::1", "destination": "fd00::2"}
GIDS: dict[str, Any] = {"source": "fe80::1", "destination": "fe80::2", "kind": Kind.ROCE1}


@pytest.fixture(params=["numpy", "numba"])
def read(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Recording]:
    """Return a function that reads the bytes of a file, with each engine."""

    def reading(content: bytes, **options: Any) -> Recording:
        path = tmp_path / "file.pcap"
        path.write_bytes(content)
        return read_recording(path, engine=request.param, **options)

    return reading


Read = Callable[..., Recording]


def variety() -> list[Packet]:
    """Return packets of every kind."""
    flow = Flow(psn=(1 << 24) - 3)
    packets = [*map(marked, flow.write(5000)), flow.ack(), flow.notify(), flow.nak(7), flow.rnr(9), *flow.read(3000)]
    packets += [pfc({3: 0xFFFF, 4: 1}), pause(500), replace(cnp(**V6), time=START + 5)]
    packets += [
        Packet(opcode=opcode, payload=5, source_qp=77, message=9) for opcode in sorted(OPCODES) if opcode != 0x81
    ]
    packets += [Packet(**GIDS, opcode=opcode, payload=8, source_qp=3) for opcode in (0x04, 0x0A, 0x11, 0x64)]
    packets += [Packet(tags=((0x8100, 0x6064),)), Packet(tags=((0x88A8, 5), (0x8100, 0x6065)), **V6)]
    packets += [Packet(tags=((0x8100, 1), (0x8100, 2), (0x9100, 3)), payload=2)]
    packets += [Packet(mirrored=kind, psn=5, tags=tags) for kind in MIRRORS for tags in ((), ((0x8100, 7),))]
    packets += [Packet(between=bytes(size)) for size in (4, 8, 40)]
    packets += [Packet(**V6, between=headers.extensions(kinds)) for kinds in ((0,), (0, 60), (43, 60, 0))]
    packets += [Packet(icrc=Icrc.WRONG), Packet(icrc=Icrc.WRONG, **V6), Packet(icrc=Icrc.WRONG, **GIDS)]
    packets += [Packet(opcode=0xC1, payload=12), Packet(bits=31), Packet(bits=1), Packet(key=0x8001, payload=1499)]
    return packets


ENGINES: tuple[EngineName, ...] = ("numpy", "numba")
MIRRORS = ("erspan1", "erspan2", "erspan3", "erspan3+")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [True, False])
def test_pcap(read: Read, order: str, nano: bool) -> None:
    packets = variety()
    expected = packets if nano else [replace(packet, time=packet.time // 1000 * 1000) for packet in packets]
    assert differences(read(files.pcap(files.records(packets), order=order, nano=nano)), recorded(expected)) == []


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng(read: Read, order: str) -> None:
    packets = variety()
    assert differences(read(files.pcapng(files.records(packets), order=order)), recorded(packets)) == []


@pytest.mark.parametrize("resolution", [None, 0, 3, 6, 9, 12, 15, 0x80 | 20, 0x80 | 31, 0x80 | 33])
def test_the_resolution_of_a_clock(read: Read, resolution: int | None) -> None:
    times = [START + place * 123_456_789 for place in range(5)]
    unit = {None: 1e-6, 0: 1.0, 3: 1e-3, 6: 1e-6, 0x80 | 20: 2**-20}.get(resolution, 1e-9)
    for offset in (START // 10**9, START // 10**9 - 100, *([] if resolution in (12, 15) else [None, -5])):
        interface = Interface(resolution=resolution, offset=offset)
        recording = read(files.pcapng(files.records([Packet(time=time) for time in times]), interface=interface))
        late = [time - value for time, value in zip(times, recording.packets["time"].tolist(), strict=True)]
        assert all(0 <= value <= unit * 1e9 + 1 for value in late), (offset, late)


@pytest.mark.parametrize("resolution", [19, 20, 0x80 | 63, 0x80 | 64, 127, 255])
def test_a_clock_that_cannot_be(read: Read, resolution: int) -> None:
    content = files.section() + Interface(resolution=resolution, offset=1 << 62).block()
    body = struct.pack("<IIIII", 0, 0xFFFFFFFF, 0xFFFFFFFF, 4, 4) + b"abcd"
    assert read(content + files.block("<", 6, body)).total == 1


def test_sections_interfaces_and_blocks(read: Read) -> None:
    packets = [Packet(time=START + place, psn=place) for place in range(8)]
    written = files.records(packets)
    fast, slow = Interface(), Interface(resolution=None, link=files.RAW)
    raw = files.records([replace(packets[2], time=START // 1000 * 1000)], link=files.RAW)
    usb = Interface(link=189)
    comment = files.option("<", 1, b"a remark") + files.option("<", 0, b"")
    old = struct.pack("<HHIIII", 0, 5, START >> 32, START & 0xFFFFFFFF, len(written[3].data), len(written[3].data))
    blocks = [
        *(files.section(), fast.block(), files.enhanced(written[0], fast), slow.block()),
        *(files.block("<", 0x0BAD, bytes(40)), files.enhanced(written[1], fast, options=comment)),
        *(files.enhanced(raw[0], slow, number=1), files.block("<", 2, old + written[3].data)),
        *(files.statistics(3), files.statistics(5), files.statistics(9, number=1)),
        *(usb.block(), files.enhanced(written[4], usb, number=2)),
        *(
            files.section(">"),
            fast.block(">"),
            files.enhanced(written[5], fast, order=">"),
            files.simple(written[6], ">"),
        ),
        *(files.statistics(1, order=">"), files.section(), fast.block(), files.simple(written[7])),
    ]
    recording = read(b"".join(blocks))
    assert recording.total == 8
    assert recording.packets["psn"].tolist() == [0, 1, 2, 3, 5, 6, 7]
    assert recording.packets["number"].tolist() == [1, 2, 3, 4, 6, 7, 8]
    assert (recording.packets["time"] - START).tolist() == [0, 1, START // 1000 * 1000 - START, 0, 5, 5, 5]
    assert recording.other == {"recorded on an interface whose link type is not read": 1}
    assert recording.dropped == 5 + 9 + 1
    assert (recording.damage, recording.truncated) == ("", False)


@pytest.mark.parametrize("link", [files.COOKED, files.COOKED2, files.RAW])
def test_link_types(read: Read, link: int) -> None:
    tags: tuple[tuple[int, int], ...] = () if link == files.RAW else ((0x8100, 0x2005),)
    packets = [Packet(tags=tags, payload=9), Packet(**V6, tags=tags), cnp(tags=tags)]
    written = files.records(packets, link=link)
    recording = read(files.pcap(written, link=link))
    assert recording.packets["length"].tolist() == [len(record.data) for record in written]
    expected = recorded(packets)
    expected.packets.columns["length"] = recording.packets["length"]
    assert differences(recording, expected) == []


def test_what_is_not_roce_is_counted(read: Read) -> None:
    packet = Packet(payload=64)
    fragment = headers.ip("10.0.0.1", "10.0.0.2", 100, fragment=0x00B9) + bytes(100)
    first = headers.ip("10.0.0.1", "10.0.0.2", 80, fragment=0x2000) + packet.packet[20:100]
    later6 = headers.ip("fd00::1", "fd00::2", 60, between=bytes([44, 17, 0, 0, 8, 0, 0, 0, 0])) + bytes(60)
    short = headers.ip("10.0.0.1", "10.0.0.2", 8) + headers.udp(5, 8) + bytes(8)
    lying = headers.ip("10.0.0.1", "10.0.0.2", 30) + packet.packet[20:]
    frames = [headers.ethernet(0x0800) + content for content in (fragment, first, short, lying)]
    frames += [headers.ethernet(0x86DD) + later6, packet.frame[:10], packet.frame[:41], packet.frame[:53], b""]
    frames += [headers.ethernet(0x0800) + b"\x44" + packet.packet[1:], headers.ethernet(0x8808) + b"\1\1\0\0"]
    frames += [headers.mirrored(headers.mirrored(packet.frame, "erspan2"), "erspan2"), *other_frames()]
    frames += [headers.mirrored(packet.frame, "erspan2")[:40], headers.ethernet(0x8915) + bytes(60)]
    recording = read(files.pcap(files.other_records(frames)))
    assert recording.total == len(frames)
    assert recording.other == {
        "not RoCE": 5,
        "cut off before the transport header": 6,
        "a later fragment of an IP packet": 2,
        "malformed headers": 4,
    }
    assert recording.packets["payload"].tolist() == [64]
    assert recording.packets["icrc"].tolist() == [Icrc.NOT_CAPTURED]


@pytest.mark.parametrize("snap", [54, 58, 70, 96])
def test_snap_lengths(read: Read, snap: int) -> None:
    flow = Flow()
    packets = [*flow.write(3000), flow.ack(), flow.notify(), Packet(opcode=0x64, source_qp=5)]
    recording = read(files.pcap(files.records(packets, snap=snap), snap=snap))
    assert recording.snap_length == snap
    expected = recorded(packets)
    for name in ("number", "time", "length", "psn", "payload", "opcode", "qp"):
        assert recording.packets[name].tolist() == expected.packets[name].tolist()
    cut = (recording.packets["bits"] & Bit.CUT).astype(bool).tolist()
    sizes = [54 + len(packet.packet) - 44 - packet.payload - packet.pad for packet in packets]
    assert cut == [size > snap for size in sizes]
    for name, unknown in (("syndrome", 0xFF), ("message", 0), ("source_qp", 0)):
        values = np.where(cut, unknown, expected.packets[name])
        assert recording.packets[name].tolist() == values.tolist()
    complete = [packet.length <= snap for packet in packets]
    assert (recording.packets["icrc"] == Icrc.RIGHT).tolist() == complete


def test_the_end_is_missing(read: Read) -> None:
    packets = [Packet(psn=place) for place in range(4)]
    for content in (files.pcap(files.records(packets)), files.pcapng(files.records(packets))):
        for missing in (1, 30, 66):
            recording = read(content[:-missing])
            assert recording.truncated
            assert recording.packets["psn"].tolist() == [0, 1, 2]
        assert not read(content).truncated


def test_absurd_and_zero_lengths(read: Read) -> None:
    packets = files.records([Packet(psn=place) for place in range(4)])
    good = files.pcap(packets)
    absurd = read(good + struct.pack("<IIII", 1, 1, 262145, 262145) + good[24:])
    assert (absurd.total, "damaged at byte" in absurd.damage) == (4, True)
    zeros = read(good + bytes(160) + good[24:])
    assert (zeros.total, zeros.damage, zeros.other) == (18, "", {"cut off before the transport header": 10})
    described = files.section() + Interface().block()
    for bad in (
        struct.pack("<III", 6, 8, 8),
        struct.pack("<III", 6, 34, 34),
        struct.pack("<IIIII", 99, 20, 0, 0, 24),
        struct.pack("<II", 6, 0xFFFFFFFC) + bytes(40),
        files.block("<", 6, struct.pack("<IIIII", 0, 0, 0, 9, 9) + bytes(4)),
        files.block("<", 6, struct.pack("<IIIII", 1, 0, 0, 4, 4) + bytes(4)),
        files.block("<", 1, b""),
    ):
        recording = read(described + files.enhanced(packets[0], Interface()) + bad)
        assert (recording.total, "damaged at byte" in recording.damage) == (1, True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"hello, world, this is not a capture", "is neither pcap nor pcapng"),
        (files.pcap([])[:20], "ends within the header of the file"),
        (files.section()[:20], "ends within the header of the file"),
        (b"\x34\xcd\xb2\xa1" + files.pcap([])[4:], "has the modified pcap format of old Linux kernels (Kuznetzov's)"),
        (b"\xa1\xb2\xcd\x34" + files.pcap([])[4:], "has the modified pcap format of old Linux kernels (Kuznetzov's)"),
        (files.pcap([], link=247), "was recorded with link type 247 (InfiniBand)"),
        (files.pcap([], link=999), "was recorded with link type 999"),
        (files.section() + Interface(link=127).block(), "was recorded with link type 127 (IEEE 802.11 with radiotap)"),
        (files.section().replace(b"\x4d\x3c\x2b\x1a", b"\x4d\x3c\x2b\x1b"), "is damaged at byte 0"),
        (files.pcap([]) + struct.pack("<IIII", 1, 1, 1 << 31, 5), "is damaged at byte 24"),
        (gzip.compress(b"")[:8], "cannot be read: the compressed data end early"),
        (gzip.compress(files.pcap([]))[:10] + b"\xff" * 20, "cannot be read: the compressed data are damaged"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 20, "cannot be read: the compressed data are damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # gzip writes the time into its files: no id
)
def test_refusals_are_a_sentence(read: Read, tmp_path: Path, content: bytes, sentence: str) -> None:
    with pytest.raises(CaptureFileError) as refused:
        read(content)
    assert refused.value.message == f"{tmp_path / 'file.pcap'} {sentence}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CaptureFileError, match="cannot be read: No such file"):
        read_recording(tmp_path / "none.pcap")
    with pytest.raises(CaptureFileError, match="cannot be read: Is a directory"):
        read_recording(tmp_path)


def compressed(content: bytes) -> Iterable[bytes]:
    """Yield a file compressed in two parts, by both programs."""
    half = len(content) // 2
    for compress in (gzip.compress, zstd_module().compress):
        yield compress(content[:half]) + compress(content[half:])


def test_compressed_files(read: Read) -> None:
    packets = variety()
    for content in compressed(files.pcapng(files.records(packets))):
        assert differences(read(content), recorded(packets)) == []
        short = read(content[:-40])
        assert f"is cut: the compressed data end early, after {plural(short.total, 'packet')}" in short.damage
        assert 0 < short.total <= len(packets)


@pytest.mark.parametrize("write", [files.pcap, files.pcapng])
def test_a_file_is_cut_wherever_it_ends_within_a_packet(read: Read, write: Callable[..., bytes]) -> None:
    packets = variety()[:3]
    ends = [len(write(files.records(packets[:count]))) for count in range(4)]
    content = write(files.records(packets))
    within_headers = {end + more for end in ends[:-1] for more in range(30)}
    for length in sorted({*within_headers, *range(ends[0], len(content), 11), *ends}):
        recording = read(content[:length])
        count = sum(end <= length for end in ends[1:])
        cut = f"the file ends in the middle of a packet after {plural(count, 'packet')}: cut"
        assert (recording.total, recording.damage) == (count, "")
        assert recording.defect == ("" if length in ends else cut)


def test_a_decompression_bomb(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "UNSUSPICIOUS_BYTES", 1 << 20)
    content = files.pcap([]) + bytes(1 << 24)
    for bomb in (gzip.compress(content), zstd_module().compress(content)):
        with pytest.raises(CaptureFileError, match="as only a decompression bomb does"):
            read(bomb)


def test_compressed_parts_without_content(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few are normal; a file of nothing else costs only what it has, and is refused."""
    steps: list[int] = []
    inflate = source_module.GzipInflater.inflate

    def counted(self: source_module.GzipInflater, data: bytes, most: int) -> bytes:
        steps.append(len(data))
        return inflate(self, data, most)

    monkeypatch.setattr(source_module.GzipInflater, "inflate", counted)
    packets, empty = variety(), gzip.compress(b"")
    content = gzip.compress(files.pcap(files.records(packets)))
    assert differences(read(empty * 500 + content + empty * 499), recorded(packets)) == []
    steps.clear()
    with pytest.raises(CaptureFileError, match="more than 1,000 compressed parts without content"):
        read(content + empty * 50_000)
    assert sum(steps) < 2000 * source_module.FIRST_STEP


@pytest.mark.shared
@pytest.mark.shared
@pytest.mark.skipif(not FIXTURE.is_file(), reason="no ../shared/fixtures here")
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_a_real_notification(engine: EngineName) -> None:
    recording = read_recording(FIXTURE, engine=engine)
    row = {name: column.tolist() for name, column in recording.packets.columns.items()}
    assert row["kind"] == [Kind.CNP]
    assert (row["tos"], row["source_port"], row["bits"], row["qp"]) == ([0xC2], [0], [Bit.BECN], [0x118])
    assert row["icrc"] == [Icrc.RIGHT]
    assert recording.packets.addresses == ("10.0.17.1", "10.0.18.1")


addresses: tuple[st.SearchStrategy[str], ...] = (
    st.sampled_from(["10.0.0.1", "10.0.0.2", "192.168.7.9"]),
    st.sampled_from(["fd00::1", "::", "1::7", "1::"]),
)
common: dict[str, Any] = {
    "time": st.integers(0, (1 << 32) * 10**9 - 1),
    "source_port": st.integers(0, 0xFFFF),
    "tos": st.integers(0, 0xFF),
    "qp": st.integers(0, (1 << 24) - 1),
    "source_qp": st.integers(0, (1 << 24) - 1),
    "psn": st.sampled_from([0, 1, (1 << 24) - 1]),
    "bits": st.integers(0, 31),
    "key": st.integers(0, 0xFFFF),
    "payload": st.integers(0, 40),
    "syndrome": st.integers(0, 0xFF),
    "msn": st.integers(0, (1 << 24) - 1),
    "message": st.integers(0, (1 << 32) - 1),
    "icrc": st.sampled_from([Icrc.RIGHT, Icrc.RIGHT, Icrc.WRONG]),
    "tags": st.lists(st.tuples(st.sampled_from([0x8100, 0x88A8]), st.integers(0, 0xFFFE)), max_size=2).map(tuple),
    "mirrored": st.sampled_from(["", "", "", *MIRRORS]),
}
opcodes = st.sampled_from([code for code in OPCODES if code != 0x81])


def one_of_version(texts: st.SearchStrategy[str], **more: Any) -> st.SearchStrategy[Packet]:
    return st.builds(Packet, source=texts, destination=texts, opcode=opcodes, **(common | more))


packets_of_any_kind = st.lists(
    one_of_version(addresses[0])
    | one_of_version(addresses[1])
    | one_of_version(addresses[1], kind=st.just(Kind.ROCE1))
    | st.builds(cnp, time=common["time"], tags=common["tags"], qp=common["qp"])
    | st.builds(pfc, st.dictionaries(st.integers(0, 7), st.integers(0, 0xFFFF)), time=common["time"]),
    max_size=12,
)


@given(packets_of_any_kind, st.sampled_from("<>"), st.booleans())
def test_any_packets(tmp_path_factory: pytest.TempPathFactory, packets: list[Packet], order: str, new: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "any.pcap"
    write = files.pcapng if new else files.pcap
    path.write_bytes(write(files.records(packets), order=order))
    for engine in ENGINES:
        assert differences(read_recording(path, engine=engine), recorded(packets)) == []


@given(
    packets_of_any_kind, st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=8), st.booleans()
)
def test_both_engines_agree_on_damaged_files(
    tmp_path_factory: pytest.TempPathFactory, packets: list[Packet], changes: list[tuple[int, int]], new: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.pcap"
    content = bytearray((files.pcapng if new else files.pcap)(files.records(packets, snap=110)))
    for place, value in changes:
        content[place % len(content)] = value
    path.write_bytes(content)
    results = [reading_or_refusal(path, engine) for engine in ENGINES]
    if isinstance(results[0], str) or isinstance(results[1], str):
        assert results[0] == results[1]
    else:
        assert differences(results[0], results[1]) == []


def reading_or_refusal(path: Path, engine: EngineName) -> Recording | str:
    try:
        return read_recording(path, engine=engine)
    except CaptureFileError as refused:
        return refused.message


def test_order_of_many_packets(read: Read) -> None:
    """Groups of different headers are put back into the order of the file."""
    flows = [Flow(psn=number, time=START + number) for number in range(3)]
    flows[1].common = {"tags": ((0x8100, 5),)}
    flows[2].source, flows[2].destination = "fd00::1", "fd00::2"
    packets = in_order(*[[packet for _ in range(20) for packet in flow.write(50)] for flow in flows])
    assert differences(read(files.pcap(files.records(packets))), recorded(packets)) == []


def test_records_that_are_longer_than_the_packet(read: Read) -> None:
    """A short frame is padded on the wire, and an FCS may follow: both lie behind the packet."""
    packet = Packet()
    recording = read(files.pcap([Record(START, packet.frame + b"\xaa" * 7)]))
    assert recording.packets["icrc"].tolist() == [Icrc.RIGHT]
    assert recording.packets["length"].tolist() == [packet.length + 7]


def test_without_the_optional_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.pcap"
    path.write_bytes(files.pcap(files.records([Packet()])))
    monkeypatch.setattr(columns, "WORTH_COMPILING_BYTES", 0)
    monkeypatch.setitem(sys.modules, "railbed.capture.files.compiled.engine", None)
    assert read_recording(path).total == 1
    with pytest.raises(ToolMissing, match="numba cannot be used here"):
        read_recording(path, engine="numba")
    path.write_bytes(zstd_module().compress(b"x"))
    monkeypatch.setitem(sys.modules, "backports", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(ToolMissing, match="zstd module is not installed"):
        read_recording(path)


def test_more_addresses_than_any_fabric_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses_module, "MOST_ADDRESSES", 20)
    monkeypatch.setattr(reader_module, "CHUNK", 8)
    path = tmp_path / "file.pcap"
    path.write_bytes(files.pcap(files.records([Packet(source=f"10.0.0.{place}") for place in range(40)])))
    recording = read_recording(path, engine="numpy")
    assert len(recording.packets) == recording.total == 16
    assert "addresses: it is read up to there" in recording.damage


def test_addresses_that_share_a_slot(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash table is small, so that most addresses are looked up one by one."""
    monkeypatch.setattr(addresses_module, "_SHIFT", np.uint64(63))
    ends = [(f"10.0.0.{place % 9}", f"10.0.1.{place % 7}") for place in range(60)]
    ends += [(f"fd00::{place % 9 + 1}", f"fd00:1::{place % 7 + 1}") for place in range(60)]
    packets = [Packet(source=source, destination=destination) for source, destination in ends]
    assert differences(read(files.pcap(files.records(packets))), recorded(packets)) == []
