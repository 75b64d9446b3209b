"""`railbed check --checklist` in a pipe and on a terminal: a check ticks what passes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.cli import SECONDS, environment, railbed
from tests.support.preloaded import server
from tests.support.recordings import make_recording

BOX = re.compile(r"- \[(?P<tick>[ x])\] \*\*(?P<names>[^*]+)\*\*: (?P<text>.+) \(`(?P<command>railbed check [^`]+)`\)")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return make_recording("two-roce-vms", tmp_path / "recording")


def ticks(text: str) -> Mapping[str, bool]:
    """Return the boxes by names and text, and whether they are ticked."""
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    matches = [BOX.fullmatch(line) for line in lines]
    assert None not in matches, lines[matches.index(None)]
    return {f"{box['names']}: {box['text']}": box["tick"] == "x" for box in matches if box}


def test_a_check_ticks_what_passes(recording: Path, tmp_path: Path) -> None:
    before = railbed(tmp_path, "check", "--checklist", "--replay", recording)
    assert before.code == 0, before
    assert "Nothing is checked yet" in before.out
    assert set(ticks(before.out).values()) == {False}
    assert not (tmp_path / "runs").exists()
    railbed(tmp_path, "check", "--replay", recording)
    after = railbed(tmp_path, "check", "--checklist", "--replay", recording).out
    boxes = ticks(after)
    assert [*boxes] == [*ticks(before.out)]
    assert boxes["ens192 of vm1, vm2: rail interfaces are up"]
    assert boxes["vm1/ens192: by hand: plug its cable into nexus Ethernet1/1"]
    assert not boxes["vm2/ens192: by hand: plug its cable into nexus Ethernet1/2"]
    assert not boxes["ens192 of vm1, vm2: MTU as in the cluster file"]
    assert "  - `fail: vm2/ens192: MTU 1500`" in after.splitlines()
    assert re.search(rf"^{sum(boxes.values())} of {len(boxes)} boxes ticked", after, re.MULTILINE)


def test_on_a_terminal_it_is_plain_and_fits(recording: Path, tmp_path: Path) -> None:
    shown = server().show(
        ["check", "--checklist", "--replay", str(recording)], cwd=tmp_path, env=environment(), timeout=SECONDS
    )
    shown = re.sub(r"\x1b\[[\d;]*m|\r", "", shown)
    assert max(map(len, shown.splitlines())) <= 80
    assert "[ ] ens192 of vm1, vm2  rail interfaces are up" in shown
    assert "**" not in shown


def test_the_commands_have_the_cluster_file(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text((recording / "cluster.yaml").read_text())
    listed = railbed(tmp_path, "check", "--checklist", "-c", "site.yaml", "link_up")
    assert ticks(listed.out).keys() == {"ens192 of vm1, vm2: rail interfaces are up"}
    assert "(`railbed check link_up -c site.yaml`)" in listed.out


def test_what_would_read_devices_is_refused(recording: Path, tmp_path: Path) -> None:
    refused = railbed(tmp_path, "check", "--checklist", "--prove", "path", "--replay", recording)
    assert refused.code == 2
    assert "--checklist reads no device" in refused.err
