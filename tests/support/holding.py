"""Stops the emulated switch of a lab at a command, so that a test can cut a change short exactly there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from switchlab import Control, ControlError
from tests.support.background import Background
from tests.support.cli import environment
from tests.support.labs import RunningLab, cache_variables
from tests.support.ranks import wait_for


@contextmanager
def held_at(switch_lab: RunningLab, lab: RunningLab, command: str, *arguments: str) -> Iterator[Background]:
    """Start a verb, and wait until the switch is about to run a command of it; at the end, let the command run."""
    control(switch_lab).hold(command)
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
        with suppress(ControlError):  # it may have lost its power
            control(switch_lab).release()


def start(lab: RunningLab, *arguments: str) -> Background:
    words = [*arguments, "--json", "--cluster", str(lab.cluster)]
    return Background(words, cwd=lab.folder, env=environment(**{**cache_variables(), **lab.variables}))


def held(switch_lab: RunningLab) -> list[str]:
    """Return the commands that the switch holds; without power it holds nothing."""
    try:
        return control(switch_lab).list_held()
    except ControlError:
        return []


def control(switch_lab: RunningLab) -> Control:
    return Control(switch_lab.cluster.parent / "nexus" / "control")
