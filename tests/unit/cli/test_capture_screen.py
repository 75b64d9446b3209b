"""The screen of capture: flows as a table that fits the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.captures import scenes
from tests.captures.exchange import FIRST, SECOND, port

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.context import Context
from railbed.capture.book import CAPTURE_BOOK
from railbed.capture.records import records_of
from railbed.cli.screens.capture import CaptureScreen
from railbed.clusterfile import loads
from railbed.rules.engine import judge


def shown(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the screen prints about two nodes with losses and congestion."""
    cluster = loads(scenes.CLUSTER, name="cluster.yaml")
    first, second = scenes.troubled_network()
    analysis = analyse([port(first, FIRST, "node1"), port(second, SECOND, "node2")], Context.of(cluster))
    monkeypatch.setenv("COLUMNS", str(width))
    output = io.StringIO()
    monkeypatch.setattr("sys.stdout", output)
    screen = CaptureScreen(verbose=False, cluster=cluster)
    for record in records_of(analysis):
        screen.show(record)
    for finding in judge(CAPTURE_BOOK, analysis):
        screen.show(finding)
    screen.finish(Path("runs/1"))
    return output.getvalue().splitlines()


def test_flows_and_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(100, monkeypatch)
    assert " ".join(lines[0].split()) == "flow QP bytes packets DSCP CE CNP lost again round trip"
    assert " ".join(lines[1].split()) == "node1 → node2 49 2.93 MB 2,704 26 3.8 % 40 0 0 10.0 µs"
    assert "Wireshark filter: frame.number in {666, 809, 811, 1183}" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_narrow_terminal_leaves_out_columns(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(width, monkeypatch)
    assert max(cell_len(line) for line in lines) <= width
    header = lines[0].split()
    assert {"flow", "bytes", "lost"} <= set(header)
    assert ("again" in header) == (width >= 60)
    assert lines[1].startswith("node1 → node2  ")
