"""Locks of devices: a second run is refused and learns who holds them; they end with their holder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from railbed.errors import UsageError
from railbed.store.run_lock import only_one

ADDRESSES = ("10.0.0.1", "10.0.0.2")


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path / "cache"))


def test_a_second_run_on_any_of_the_devices_is_refused_and_names_the_first(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "runs" / "run-1", tmp_path / "b" / "runs" / "run-2"
    who = rf"another `railbed configure` is running: run run-1, \w+ on \S+, pid {os.getpid()}, in {first.parent}$"
    with only_one("configure", ADDRESSES, first):
        with pytest.raises(UsageError, match=who), only_one("configure", ["10.0.0.9", ADDRESSES[1]], second):
            pytest.fail("two runs change one device")
        with only_one("configure", ["10.0.0.3"], second):
            pass
    with only_one("configure", ADDRESSES, second):
        pass


HOLD = f"""
import signal
from pathlib import Path
from railbed.store.run_lock import only_one
with only_one("configure", {ADDRESSES}, Path("runs", "run-1")):
    print("held", flush=True)
    signal.pause()
"""


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, cwd=tmp_path) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == b"held\n"
            who = f"pid {first.pid}, "
            with pytest.raises(UsageError, match=who), only_one("configure", ADDRESSES, tmp_path / "run-2"):
                pytest.fail("two runs change one device")
        finally:
            first.kill()
    with only_one("configure", ADDRESSES, tmp_path / "run-2"):
        pass
