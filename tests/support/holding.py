"""Stops the emulated switch of a lab at a command, so that a test can cut a change short exactly there."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.background import Background
from tests.support.cli import environment
from tests.support.labs import RunningLab, cache_variables
from tests.support.ranks import wait_for

SECONDS = 60.0


@contextmanager
def held_at(switch_lab: RunningLab, lab: RunningLab, command: str, *arguments: str) -> Iterator[Background]:
    """Start a verb, and wait until the switch is about to run a command of it; at the end, let the command run."""
    drive(switch_lab, {"do": "hold", "command": command})
    process = start(lab, *arguments)
    try:
        with process:
            try:
                wait_for(lambda: bool(held(switch_lab)) or process.poll() is not None)
                assert process.poll() is None, process.communicate()
                yield process
            finally:
                process.kill()
    finally:
        drive(switch_lab, {"do": "release"})


def start(lab: RunningLab, *arguments: str) -> Background:
    words = [*arguments, "--json", "--cluster", str(lab.cluster)]
    return Background(words, cwd=lab.folder, env=environment(**{**cache_variables(), **lab.variables}))


def held(switch_lab: RunningLab) -> list[str]:
    """Return the commands that the switch holds."""
    result = drive(switch_lab, {"do": "held"})
    assert isinstance(result, list)
    return result


def drive(switch_lab: RunningLab, request: dict[str, str]) -> object:
    """Send a request to the control socket of the switch; a switch without power holds nothing."""
    folder = os.open(switch_lab.cluster.parent / "nexus", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(SECONDS)
            # The path of a socket is limited to 107 bytes.
            client.connect(str(Path(f"/proc/self/fd/{folder}") / "control"))
            client.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(client.makefile().readline())
    except ConnectionRefusedError:
        return []
    finally:
        os.close(folder)
    assert answer["ok"], answer
    return answer["result"]
