"""The guard of an arm's change: whatever ends the shell that it was started from, it undoes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from railbed.bench.change import guard_script
from railbed.bench.compare.experiment import Change
from railbed.clusterfile import loads
from tests.support.ranks import wait_for

CLUSTER = loads(
    """
name: c
rails: {r: {subnet: 10.0.0.0/24}}
nodes:
  n1: {host: n1, ports: [{netdev: lo, rail: r, address: 10.0.0.1}]}
""",
    name="c.yaml",
)
IP = """#!/bin/sh
echo "$*" >>{told}
{then}
"""


def end_by_input(shell: subprocess.Popen[bytes]) -> None:
    os.killpg(shell.pid, signal.SIGTERM)


def end_at_once(shell: subprocess.Popen[bytes]) -> None:
    os.killpg(shell.pid, signal.SIGKILL)


def guarded(change: Change, mark: Path, end: Callable[[subprocess.Popen[bytes]], None], *before: str) -> None:
    """Start a guard, make its change, and end the shell that it was started from."""
    guard, make = guard_script(CLUSTER, "n1", change, str(mark))
    environment = {**os.environ, "PATH": ":".join([*before, os.environ["PATH"]])}
    with subprocess.Popen(["sh", "-c", guard], start_new_session=True, env=environment) as shell:
        subprocess.run(["sh", "-c", make], check=True, timeout=30, env=environment)
        assert mark.exists()
        end(shell)


@pytest.mark.parametrize("end", [end_by_input, end_at_once])
def test_it_undoes_however_the_shell_ends(tmp_path: Path, end: Callable[[subprocess.Popen[bytes]], None]) -> None:
    mark, made = tmp_path / "mark", tmp_path / "made"
    guarded(Change(apply=f"touch {made}", undo=f"sleep 0.2; rm {made}"), mark, end)
    wait_for(lambda: not mark.exists())
    assert not made.exists()
    assert not (tmp_path / "mark.failed").exists()


@pytest.mark.parametrize("works", [True, False])
def test_the_mtu_is_put_back_and_a_failure_is_kept(tmp_path: Path, works: bool) -> None:
    """Linux' own `ip` would change this machine: one that writes down what it is told stands in its place."""
    mark, told, program = tmp_path / "mark", tmp_path / "told", tmp_path / "ip"
    old = Path("/sys/class/net/lo/mtu").read_text().strip()
    refuse = f'case "$*" in *"mtu {old}") echo no >&2; exit 1;; esac'
    program.write_text(IP.format(told=told, then="" if works else refuse))
    program.chmod(0o755)
    guarded(Change(mtu=1280), mark, end_at_once, str(tmp_path))
    wait_for(lambda: not mark.exists())
    assert told.read_text().splitlines() == ["link set dev lo mtu 1280", f"link set dev lo mtu {old}"]
    failed = tmp_path / "mark.failed"
    assert (failed.read_text() if failed.exists() else "") == ("" if works else "no\n")
