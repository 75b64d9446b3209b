"""Recordings as one file: every packet of each, on one clock, with names and comments; Wireshark's tshark agrees."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.context import Context
from railbed.capture.analysis.results import Analysis
from railbed.capture.book import CAPTURE_BOOK
from railbed.capture.export import Exported, export_recordings, merge
from railbed.capture.export.blocks import CORRUPT, TEXTS, comments_of
from railbed.capture.files import read_recording
from railbed.capture.packets import Kind
from railbed.clusterfile import loads
from railbed.errors import UsageError
from railbed.rules.engine import judge
from tests.captures import files, scenes
from tests.captures.cases.case import at
from tests.captures.cases.delivery import corrupt
from tests.captures.truth import START, Packet
from tests.support.cli import railbed
from tests.test_cli import assert_one_sentence

CONTEXT = Context.of(loads(scenes.CLUSTER, name="cluster.yaml"))
OFFSET = 3 * scenes.MILLISECOND


def analysed(paths: Sequence[Path]) -> Analysis:
    """Return what the recordings of node1 and node2 show."""
    recordings = [
        replace(
            read_recording(path, name=f"node{number}/ens1", device=f"node{number}", addresses=(f"10.0.0.{number}",)),
            file=path.name,
            dropped=3 * (number == 1),
        )
        for number, path in enumerate(paths, 1)
    ]
    return analyse(recordings, CONTEXT)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return scenes.write_files(tmp_path_factory.mktemp("captured"))


@pytest.fixture(scope="module")
def exported(paths: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Exported, Analysis]:
    target = tmp_path_factory.mktemp("exported") / "all.pcapng"
    analysis = analysed(paths)
    return target, export_recordings(analysis, paths, target, list(judge(CAPTURE_BOOK, analysis))), analysis


def test_every_packet_once_in_order_on_one_clock(exported: tuple[Path, Exported, Analysis]) -> None:
    target, result, analysis = exported
    again = read_recording(target)
    assert (again.total, again.damage, again.truncated) == (result.packets, "", False)
    assert result.packets == sum(recording.total for recording in analysis.recordings)
    assert result.bytes == target.stat().st_size
    assert target.stat().st_mode & 0o777 == 0o600
    assert np.all(np.diff(again.packets["time"]) >= 0)
    assert again.dropped == 3
    for name in ("length", "psn", "qp", "tos", "syndrome", "payload"):
        before = np.concatenate([recording.packets[name] for recording in analysis.recordings])
        assert sorted(again.packets[name].tolist()) == sorted(before.tolist())
    assert int(again.packets["time"].max() - again.packets["time"].min()) < 61 * scenes.MILLISECOND


def test_many_small_batches_give_the_same(
    exported: tuple[Path, Exported, Analysis], paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _, analysis = exported
    monkeypatch.setattr(merge, "MOST_AT_ONCE", 7)
    export_recordings(analysis, paths, tmp_path / "small.pcapng", list(judge(CAPTURE_BOOK, analysis)))
    assert (tmp_path / "small.pcapng").read_bytes() == target.read_bytes()


def test_lengths_padding_and_other_packets_are_preserved(tmp_path: Path) -> None:
    frames = [Packet(payload=size, time=START + size, data=bytes(range(256)) * 5).frame for size in range(1, 1200, 7)]
    frames += [b"", b"\x01", bytes(60)]
    records = [files.Record(START + place, frame, len(frame) + 5) for place, frame in enumerate(frames)]
    (tmp_path / "a.pcap").write_bytes(files.pcap(records))
    (tmp_path / "b.pcapng").write_bytes(
        files.pcapng(files.records([Packet()], link=101), interface=files.Interface(101))
    )
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcapng"]
    analysis = analyse([read_recording(path) for path in paths])
    result = export_recordings(analysis, paths, tmp_path / "all.pcapng")
    assert (result.packets, result.left_out) == (len(frames) + 1, 0)
    content = (tmp_path / "all.pcapng").read_bytes()
    position = 0
    for frame in frames:
        padded = frame + bytes(-len(frame) % 4)
        position = content.index(
            len(frame).to_bytes(4, "little") + (len(frame) + 5).to_bytes(4, "little") + padded, position
        )
    assert read_recording(tmp_path / "all.pcapng").total == len(frames) + 1


def test_a_failure_leaves_the_old_file(tmp_path: Path, paths: list[Path]) -> None:
    target = tmp_path / "all.pcapng"
    target.write_text("old")
    analysis = analysed(paths)
    with pytest.raises(UsageError, match="cannot write the packets"):
        export_recordings(analysis, paths, tmp_path / "missing" / "all.pcapng")
    with pytest.raises(ValueError, match="zip"):
        export_recordings(analysis, paths[:1], target)
    assert (target.read_text(), sorted(tmp_path.iterdir())) == ("old", [target])


def test_the_command_refuses_what_it_would_overwrite(tmp_path: Path) -> None:
    first, second = scenes.write_files(tmp_path)
    (tmp_path / "old.pcapng").write_text("old")
    command = ("capture", "--from", first, second, "--export")
    assert_one_sentence(railbed(tmp_path, *command, "old.pcapng"), 2, "old.pcapng exists already")
    assert_one_sentence(railbed(tmp_path, *command, first, "--force"), 2, "is one of the files to read")
    assert_one_sentence(railbed(tmp_path, *command, "no/all.pcapng"), 2, "its folder does not exist")
    result = railbed(tmp_path, *command, "old.pcapng", "--force", "--json")
    (event,) = [record for record in result.records if record.get("name") == "packets_exported"]
    assert event["data"]["packets"] == read_recording(tmp_path / "old.pcapng").total


def test_a_cut_recording_is_called_cut_everywhere(tmp_path: Path) -> None:
    first, second = scenes.write_files(tmp_path)
    complete = read_recording(first).total
    first.write_bytes(first.read_bytes()[:-7])
    cut = f"the file ends in the middle of a packet after {complete - 1:,} packets: cut"
    command = ("capture", "--from", first, second, "--export", "all.pcapng")
    result = railbed(tmp_path, *command, "--json")
    wrong = [record for record in result.records if record.get("check") == "recorder_cut"]
    assert [(it["verdict"], it["subject"], it["observed"]) for it in wrong] == [("warn", first.name, cut)]
    (written,) = [record["data"] for record in result.records if record.get("name") == "packets_exported"]
    assert written["incomplete"] == [first.name]
    content = (tmp_path / "all.pcapng").read_bytes()
    assert f"warn recorder_cut, {first.name}: {cut}".encode() in content
    assert f"its clock is the reference; {cut}".encode() in content
    shown = " ".join(railbed(tmp_path, *command, "--force").out.split())
    assert cut in shown
    assert f"for Wireshark; cut or damaged: {first.name}" in shown
    assert "recorder_dropped" not in shown


@pytest.mark.parametrize(("wrong", "commented"), [(0, 0), (1, 1), (50, 50), (51, 0), (100, 0)])
def test_a_checksum_that_the_verdict_calls_not_computed_is_not_called_wrong(wrong: int, commented: int) -> None:
    recording = at(2, corrupt(wrong, 100))
    analysis = analyse([recording], CONTEXT)
    bits = comments_of(analysis, recording).texts
    assert TEXTS[CORRUPT] == "the ICRC is wrong"
    assert int((bits >> CORRUPT & 1).sum()) == commented
    verdicts = [finding.observed for finding in judge(CAPTURE_BOOK, analysis) if finding.check == "delivery_corrupt"]
    assert any(f"{commented} of 100 packets is wrong" in observed for observed in verdicts) == bool(commented)


@pytest.mark.tshark
def test_tshark_reads_names_comments_and_times(exported: tuple[Path, Exported, Analysis]) -> None:
    target, result, analysis = exported
    names = ("frame.interface_name", "frame.time_epoch", "infiniband.bth.opcode", "ip.dsfield.ecn", "frame.comment")
    fields = [argument for name in names for argument in ("-e", name)]
    command = ["tshark", "-n", "-r", str(target), "-T", "fields", *fields]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert Counter(row[0] for row in rows) == {recording.name: recording.total for recording in analysis.recordings}
    times = [float(row[1]) for row in rows]
    assert times == sorted(times)
    comments = Counter(row[4].partition(" of ")[0] for row in rows if row[4])
    assert sum(comments.values()) == result.comments
    assert comments["CE: marked as congested on the way"] == sum(row[3] == "3" for row in rows)
    notices = sum(int((recording.packets["kind"] == Kind.CNP).sum()) for recording in analysis.recordings)
    assert comments["CNP: congestion notification"] == notices
    assert comments["lost: sent here, but did not arrive"] == 4
    assert comments["NAK: sequence error"] == 6
    repeated = [(number, row) for number, row in enumerate(rows, 1) if row[4].startswith("retransmission of ")]
    for number, row in repeated:
        if (place := row[4].removeprefix("retransmission of ")).isdecimal():
            assert int(place) < number
            assert rows[int(place) - 1][::2][:2] == row[::2][:2]
