"""The lock of a change on a switch: a checkpoint whose description names the holder.

A switch cannot run a guard, and no two checkpoints can have the same name. So the checkpoint CHANGING is the lock, for
every machine that can reach the switch. Nothing on the switch shows whether its holder is still working: if the lock is
left behind, the switch may be half-changed.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from dataclasses import dataclass
from typing import Literal, get_args

Purpose = Literal["run", "undo", "experiment"]
CHANGING = "railbed-changing"
UNLOCK = f"no checkpoint {CHANGING}"
MOST_NAME, MOST_PERSON = 32, 14
"""A Nexus 5000 allows 32 characters for the name of a checkpoint, and every Nexus 80 for its description."""
DESCRIPTION = re.compile(
    r"(?P<purpose>run|undo|experiment):(?P<run>[\w-]*):(?P<user>[\w.-]+)@(?P<machine>[\w.-]+):(?P<pid>\d{1,9})"
)


def checkpoint_name(run: str) -> str:
    """Return the name of the checkpoint with the state before a run."""
    return f"railbed-{run.replace('-configure', '')}"[:MOST_NAME]


def rollback_command(checkpoint: str) -> str:
    """Return the command that restores a checkpoint."""
    return f"rollback running-config checkpoint {checkpoint} atomic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who changes a switch, and for what."""

    purpose: Purpose
    """`run` applies changes, `undo` undoes those of a run, `experiment` changes the switch for a while."""
    run: str = ""
    """The run whose changes are applied or undone."""
    user: str
    machine: str
    pid: int

    @classmethod
    def this_process(cls, purpose: Purpose, run: str = "") -> Holder:
        """Return this process as the holder."""
        user, machine = _word(getpass.getuser()), _word(socket.gethostname())
        return cls(purpose=purpose, run=run, user=user, machine=machine, pid=os.getpid())

    @classmethod
    def parse(cls, description: str) -> Holder | None:
        """Return the holder that a description names; None if it was not written by `description`."""
        match = DESCRIPTION.fullmatch(description)
        if match is None:
            return None
        purpose: Purpose = next(name for name in get_args(Purpose) if name == match["purpose"])
        return cls(
            purpose=purpose, run=match["run"], user=match["user"], machine=match["machine"], pid=int(match["pid"])
        )

    @property
    def description(self) -> str:
        """The description of the checkpoint: one word, which every release accepts."""
        return f"{self.purpose}:{self.run}:{self.user}@{self.machine}:{self.pid}"

    @property
    def is_here(self) -> bool:
        """Whether it is or was a process of this machine."""
        return self.machine == _word(socket.gethostname())

    def __str__(self) -> str:
        names = {"run": f"run {self.run}", "undo": f"the undo of run {self.run}", "experiment": "an experiment"}
        return f"{names[self.purpose]}, {self.user} on {self.machine}, pid {self.pid}"


def describe_lock(holder: Holder | None) -> str:
    """Return what the lock on a switch means."""
    return f"being changed, or left half-changed, by {holder or 'somebody'}"


def way_out(holder: Holder | None) -> str:
    """Return how to restore a switch whose holder has ended."""
    if holder is None:
        return (
            f"`show checkpoint {CHANGING}` is an earlier state of it; if nobody is changing it, `{UNLOCK}` unlocks it"
        )
    by_hand = f"`{rollback_command(CHANGING)}`, then `{UNLOCK}`"
    if holder.purpose == "experiment":
        return f"if it is not running any more, restore the switch by hand: {by_hand}"
    undo = f"`railbed configure --undo {holder.run}` (on {holder.machine}, in the folder of that run)"
    return f"if it is not running any more, {undo} restores the switch; by hand: {by_hand}"


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:MOST_PERSON] or "unknown"
