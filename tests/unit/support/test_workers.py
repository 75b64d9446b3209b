"""The processes that run the tests: forked, with the streams of the process that pytest-xdist starts."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import workers

SERVE = """
import socket, sys
from tests.support import workers
workers.serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
"""
SECONDS = 60


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Path]:
    """The socket of a process that forks; it ends with the test."""
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening, theirs:
        listening.bind(str(tmp_path / "door"))
        listening.listen()
        files = (listening.fileno(), theirs.fileno())
        command = [sys.executable, "-c", SERVE, *map(str, files)]
        process = subprocess.Popen(command, cwd=Path(workers.__file__).parents[2], pass_fds=files)
    yield tmp_path / "door"
    ours.close()
    assert process.wait(SECONDS) == 0


def start(door: Path, program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-IS", workers.__file__, str(door), "-u", "-c", program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_worker_has_the_streams_of_the_process_that_was_started(door: Path) -> None:
    assert [start(door, "print(input()[::-1])").communicate(word, SECONDS)[0] for word in ("abc", "def")] == [
        "cba\n",
        "fed\n",
    ]


def test_a_worker_that_dies_ends_its_output_and_the_process_that_was_started(door: Path) -> None:
    with start(door, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)") as process:
        assert process.stdout
        assert process.stdout.read() == ""
        process.wait(SECONDS)


@pytest.mark.parametrize("program", [b"", b"import time; time.sleep(3600)"])
def test_a_call_that_is_killed_before_it_has_an_answer_leaves_the_others_in_peace(door: Path, program: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as call:
        call.connect(str(door))
        if program:
            socket.send_fds(call, [program], [0, 1, 2])
    assert start(door, "print('here')").communicate(timeout=SECONDS)[0] == "here\n"


def test_a_worker_is_killed_with_the_process_that_was_started(door: Path) -> None:
    with start(door, "import os; print(os.getpid(), flush=True); os.read(0, 1)") as process:
        assert process.stdin
        assert process.stdout
        worker = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        assert select.select([worker], [], [], SECONDS)[0]
    os.close(worker)
