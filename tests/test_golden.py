"""The whole product over a recorded RDMA cluster: what the terminal shows, line by line, narrow and wide."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli import Result, railbed
from tests.support.recordings import make_recording

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return make_recording("two-roce-vms", tmp_path / "recording")


def compare(name: str, text: str, update: bool) -> None:
    text = re.sub(r"in \d+\.\d s, kept as\s+\S+", "in N s, kept as RUN", text)
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    if update:
        (GOLDEN / name).write_text(text)
    assert text == (GOLDEN / name).read_text()


@pytest.mark.parametrize("columns", [80, 160])
def test_check(recording: Path, tmp_path: Path, columns: int, update: bool) -> None:
    result = railbed(tmp_path, "check", "--replay", recording, COLUMNS=str(columns))
    assert result.code == 1, result
    assert max(map(len, result.out.splitlines())) <= columns
    compare(f"check_{columns}.txt", result.out, update)


def test_check_all(recording: Path, tmp_path: Path, update: bool) -> None:
    compare("check_all.txt", railbed(tmp_path, "check", "--all", "--replay", recording, COLUMNS="120").out, update)


def test_nothing_is_left_unread(recording: Path, tmp_path: Path) -> None:
    """The recording speaks to every rule: what is unknown is unknown for a reason of the cluster."""
    result = railbed(tmp_path, "check", "--replay", recording, "--json")
    unread = [
        f for f in result.findings if "not in the recording" in f["observed"] or "not understood" in f["observed"]
    ]
    assert unread == []


def test_discover_finds_the_cluster_that_was_recorded(recording: Path, tmp_path: Path, update: bool) -> None:
    result: Result = railbed(tmp_path, "discover", "--replay", recording, "-c", "found.yaml")
    assert result.code == 0, result
    compare("discovered.yaml", (tmp_path / "found.yaml").read_text(), update)
