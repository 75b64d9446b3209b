"""Never silent: a terminal and a pipe show what is waited for, and every end shows what remains.

One node hangs until a file is there, so that nothing depends on how fast this machine is.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cli import RAILBED, environment, railbed
from tests.support.sshd import SSHD, running_servers
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.ssh, pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed")]
IMPATIENT = """
from railbed.cli.screens import progress
progress.PLAIN_SECONDS = ((float("inf"), 0.3),)
from railbed.__main__ import main
main()
"""
"""Prints a plain line more often than people want it."""
SECONDS = 60


@dataclass
class Site:
    """Three nodes, of which the last answers when it is let go."""

    folder: Path

    @property
    def hangs(self) -> bool:
        return (self.folder / "hangs").exists()

    def let_go(self) -> None:
        (self.folder / "gate").touch()

    def run(self) -> dict[str, object]:
        (run,) = railbed(self.folder, "runs", "--json").records
        return run

    def terminal(self, *arguments: str) -> Terminal:
        return Terminal([RAILBED, *arguments], self.folder, environment())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "keys").mkdir()
    script = tmp_path / "gated-python"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/hangs\nuntil [ -e {tmp_path}/gate ]; do sleep 0.1; done\n")
    script.chmod(0o755)
    with running_servers(3, tmp_path / "keys") as servers:
        text = servers.cluster_yaml()
        (tmp_path / "cluster.yaml").write_text(text.replace("n3: {host:", f"n3: {{python: {script}, host:"))
        yield Site(tmp_path)
        (tmp_path / "gate").touch()


def test_a_terminal_shows_who_is_waited_for(site: Site) -> None:
    with site.terminal("check", "torch_equal") as terminal:
        output = terminal.read(until="waiting for n3")
        await_hanging(site)
        assert "2/3" in output
        shown = last_time(output)
        terminal.read(until=lambda output: last_time(output) > shown)  # it moves while nothing else does
        site.let_go()
        terminal.read(until="saved in")


def test_a_pipe_gets_a_line_now_and_then(site: Site) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, "check", "torch_equal"],
        cwd=site.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "waiting for" in line and "2/3" in line)
        assert line.startswith("reading  2/3  0:")
        assert line.endswith("waiting for n3\n")
        await_hanging(site)
        site.let_go()
        out, err = process.communicate(timeout=SECONDS)
    assert "\r" not in err
    assert "waiting for" not in out


def test_records_as_json_come_without_progress(site: Site) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, "check", "torch_equal", "--json"],
        cwd=site.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        await_hanging(site)
        site.let_go()
        out, err = process.communicate(timeout=SECONDS)
    assert err == b""
    assert {json.loads(line)["kind"] for line in out.splitlines()} == {"event", "finding"}


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_says_what_is_left(site: Site, times: int) -> None:
    with site.terminal("check", "torch_equal", "-c", "cluster.yaml") as terminal:
        terminal.read(until="waiting for n3")
        terminal.type("\x03" * times)
        output = terminal.read()
        assert terminal.process.wait(SECONDS) == 130
    run = site.run()
    assert run["status"] == "stopped"
    assert "railbed: interrupted\r\n" in output
    assert f"saved in runs/{run['id']}: " in output
    assert "start again: railbed check torch_equal -c cluster.yaml\r\n" in output
    assert run["next"] == "railbed check torch_equal -c cluster.yaml"


def test_a_terminal_that_is_closed_ends_the_run_in_order(site: Site) -> None:
    with site.terminal("check", "torch_equal") as terminal:
        terminal.read(until="waiting for n3")
        terminal.hang_up()
        assert terminal.process.wait(SECONDS) == 130
    assert site.run()["status"] == "stopped"


def test_after_a_kill_the_list_of_runs_says_how_to_continue(site: Site) -> None:
    with subprocess.Popen([RAILBED, "check", "torch_equal"], cwd=site.folder, env=environment()) as process:
        await_hanging(site)
        process.send_signal(signal.SIGKILL)
    run = site.run()
    assert run["status"] == "died"
    assert f"{run['id']} was killed; to continue: railbed check torch_equal\n" in railbed(site.folder, "runs").out


def last_time(output: str) -> str:
    times: list[str] = re.findall(r"(\d:\d\d)  waiting for n3", output)
    return times[-1]


def await_hanging(site: Site) -> None:
    deadline = time.monotonic() + SECONDS
    while not site.hangs:
        assert time.monotonic() < deadline
        time.sleep(0.05)
