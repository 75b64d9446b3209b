"""The complete product on a recorded RDMA cluster: what the terminal shows, line by line, narrow and wide."""

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
    text = re.sub(r"in \d+\.\d s, saved in\s+\S+", "in N s, saved in RUN", text)
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
    """The recording has facts for every rule: whatever is unknown has a reason in the cluster."""
    result = railbed(tmp_path, "check", "--replay", recording, "--json")
    unread = [
        f for f in result.findings if "not in the recording" in f["observed"] or "could not be parsed" in f["observed"]
    ]
    assert unread == []


def test_discover_finds_the_cluster_that_was_recorded(recording: Path, tmp_path: Path, update: bool) -> None:
    result: Result = railbed(tmp_path, "discover", "--replay", recording, "-c", "found.yaml")
    assert result.code == 0, result
    compare("discovered.yaml", (tmp_path / "found.yaml").read_text(), update)


@pytest.mark.parametrize(
    ("rule", "probe", "code"),
    [("disk_space", "disk", 3), ("memory_available", "memory", 0)],
    ids=["training depends on it", "training does not"],
)
def test_what_training_depends_on_must_be_known(
    recording: Path, tmp_path: Path, rule: str, probe: str, code: int
) -> None:
    """One node of two prints something that no parser understands: the other passes, but the check does not."""
    (recording / "vm2" / f"{probe}.1.out").write_text("\x1b[2Jsegmentation fault\n")
    result = railbed(tmp_path, "check", "--replay", recording, rule)
    assert result.code == code, result
    assert "unknown" in result.out
    reason = f"exit code 3: training depends on rules with unknown results: {rule}" if code else "1 unknown"
    assert result.out.splitlines()[-1].startswith(reason)
    findings = railbed(tmp_path, "check", "--replay", recording, rule, "--json").findings
    assert {finding["essential"] for finding in findings} == {code == 3}


def test_a_failure_counts_more_than_what_is_unknown(recording: Path, tmp_path: Path) -> None:
    (recording / "vm2" / "listening.1.out").write_text("?\n")
    result = railbed(tmp_path, "check", "--replay", recording, "rendezvous_free", "mtu")
    assert (result.code, result.out.splitlines()[-1]) == (1, "exit code 1: 1 finding failed")
