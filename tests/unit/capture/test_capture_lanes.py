"""Records are found in many lanes at once: exactly those that a sequential walk finds, whatever the payload is."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.captures import files
from tests.captures.compare import differences
from tests.captures.files import Interface, Record
from tests.captures.truth import START, Packet, recorded

from railbed.capture.files import source
from railbed.capture.files.formats import lanes, pcapng
from railbed.capture.files.formats.blocks import BlockChain
from railbed.capture.files.formats.pcap import PcapChain, read_header
from railbed.capture.files.reader import read_recording
from railbed.capture.files.source import FileWindow
from railbed.errors import CaptureFileError


class Bytes:
    """A source in memory, which returns a few bytes at a time."""

    def __init__(self, content: bytes) -> None:
        self.content, self.problem, self.size = content, "", len(content)

    def readinto(self, target: memoryview) -> int:
        piece = self.content[: min(len(target), 100_000)]
        self.content = self.content[len(piece) :]
        target[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use lanes for small files too."""
    make_lanes_small(monkeypatch)


def make_lanes_small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LANES", 40), ("RECORDS_PER_LANE", 5), ("FEWEST_RECORDS", 20), ("PROBED_RECORDS", 4)):
        monkeypatch.setattr(lanes, name, value)
    monkeypatch.setattr(lanes, "FEWEST_LANES", 2)


def both_walks(content: bytes) -> tuple[list[int], list[int]]:
    """Return where records begin according to lanes and to a sequential walk, and where both ended."""
    results = []
    for alone in (False, True):
        part = FileWindow(Bytes(content), 1 << 22)
        if content[:4] == b"\x0a\x0d\x0d\x0a":
            chain: lanes.RecordChain = BlockChain(part, "<")
            begin = 28
        else:
            chain, begin = PcapChain(part, read_header(content)), 24
        positions, reached = lanes.walk_records(chain, begin, part.end, alone=alone)
        results.append([*positions.tolist(), reached])
    return results[0], results[1]


def random_records(seed: int, count: int, *, inner: bool = False, jumps: bool = False) -> list[Record]:
    number = random.Random(seed)  # noqa: S311
    content, time = [], START
    for _ in range(count):
        time += number.choice((100, 10**6, 10**9))
        if jumps and number.random() < 0.1:
            time += number.choice((-1, 1)) * 10**17
        data = number.randbytes(number.choice((0, 1, 60, 96, 1000)))
        if inner and number.random() < 0.3:
            hidden = [Record(time + place, number.randbytes(number.choice((0, 40)))) for place in range(30)]
            data = number.randbytes(number.randrange(50)) + files.pcap(hidden)[24:]
        content.append(Record(time, data))
    return content


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("jumps", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_lanes_find_what_a_walk_finds(inner: bool, jumps: bool, seed: int) -> None:
    content = random_records(seed, 700, inner=inner, jumps=jumps)
    for written in (files.pcap(content), files.pcap(content, order=">"), files.pcapng(content)):
        laned, walked = both_walks(written)
        assert laned == walked
        assert laned[-1] == len(written)
        assert len(laned) >= 700


def test_pcapng_inside_a_payload() -> None:
    hidden = files.pcapng([Record(START, bytes(20))] * 50)
    laned, walked = both_walks(files.pcapng([Record(START + place, hidden) for place in range(60)]))
    assert laned == walked
    assert len(laned) == 62


def test_lanes_are_used_and_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a decoy, the sequential walk sees only the first records; with one, it repairs."""
    walked: list[int] = []
    original = PcapChain.walk

    def counting(self: PcapChain, position: int, until: int, most: int) -> tuple[list[int], int]:
        positions, reached = original(self, position, until, most)
        walked.append(len(positions))
        return positions, reached

    monkeypatch.setattr(PcapChain, "walk", counting)
    plain = files.pcap([Record(START + place, bytes(90)) for place in range(500)])
    part = FileWindow(Bytes(plain), 1 << 20)
    positions, reached = lanes.walk_records(PcapChain(part, read_header(plain)), 24, part.end)
    assert (len(positions), reached) == (500, len(plain))
    assert sum(walked) < 50
    walked.clear()
    decoy = files.pcap([Record(START, bytes(20))] * 40)[24:]
    content = files.pcap([Record(START + place, decoy[place % 20 :]) for place in range(200)])
    part = FileWindow(Bytes(content), 1 << 20)
    positions, reached = lanes.walk_records(PcapChain(part, read_header(content)), 24, part.end)
    assert (len(positions), reached) == (200, len(content))
    assert sum(walked) > 50


@given(st.integers(0, 1 << 32), st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 255)), max_size=5))
def test_damaged_files(seed: int, changes: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        make_lanes_small(patch)
        records = random_records(seed, 120, inner=seed % 2 == 0)
        for good, begin in ((files.pcap(records), 24), (files.pcapng(records), 28)):
            content = bytearray(good)
            for place, value in changes:
                content[begin + place % (len(content) - begin)] = value
            laned, walked = both_walks(bytes(content))
            assert laned == walked


def test_windows_that_slide_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that continues behind the window is read with the next one."""
    packets = [Packet(time=START + place, psn=place, payload=place % 1200) for place in range(1500)]
    path = tmp_path / "file"
    expected = recorded(packets)
    for content in (files.pcap(files.records(packets)), files.pcapng(files.records(packets))):
        path.write_bytes(content)
        for size in (1 << 19, 300_001):
            monkeypatch.setattr(source, "SIZE", size)
            assert differences(read_recording(path), expected) == []


def test_many_short_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng, "MOST_SECTIONS", 300)
    interface = Interface()
    piece = files.section() + interface.block() + files.enhanced(Record(START, Packet().frame), interface)
    path = tmp_path / "file"
    path.write_bytes(piece * 301)
    recording = read_recording(path)
    assert recording.total == 300
    assert "it has more than 300 sections" in recording.damage


def test_many_interfaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng, "MOST_INTERFACES", 300)
    path = tmp_path / "file"
    packet = Record(START, Packet().frame)
    for count, total in ((300, 1), (301, 1), (299, 0)):
        block = files.enhanced(packet, Interface(), number=299)
        path.write_bytes(files.section() + Interface().block() * count + block)
        if total:
            assert read_recording(path).total == total
            assert bool(read_recording(path).damage) == (count > 300)
        else:
            with pytest.raises(CaptureFileError, match="a packet of an interface that is not described"):
                read_recording(path)


def test_positions_are_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage is reported with its place in the file, not in the window."""
    monkeypatch.setattr(source, "SIZE", 300_000)
    good = files.pcap([Record(START, bytes(1000))] * 1000)
    path = tmp_path / "file"
    path.write_bytes(good + struct.pack("<IIII", 0, 0, 1 << 20, 0))
    assert read_recording(path).damage.endswith(f"is damaged at byte {len(good)}")
    assert np.uint32(1000) == read_recording(path).total
