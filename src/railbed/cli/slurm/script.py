"""The batch script of a submitted run.

Everything that a person typed is either a word such as Slurm's names are, or quoted for the shell. Paths are only in
shell commands: the script is submitted from the run's folder, so Slurm itself needs none. The job gets a few variables
of the environment by name, and no others.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railbed.cli.background.runs import OUTPUT
from railbed.errors import UsageError
from railbed.store import CONTINUED
from railbed.store.run import ABOUT

PASSED = (
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "RAILBED_CACHE",
    "SHELL",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
)
"""Variables that the job gets. By default Slurm stores all of them, passwords included."""
WORD = re.compile(r"[A-Za-z0-9_.,:;=+@%/*&|!<>~^()\[\]-]+")
NOT_OURS = 73
"""Exit code of a script whose run has been replaced."""
NOTICE_SECONDS = 120
LONGEST_NOTICE = 65535
"""The most that Slurm accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What is asked of Slurm."""

    nodes: int
    time: str = ""
    named: Mapping[str, str] = field(default_factory=dict)
    """Options of sbatch with a value: partition, account, qos, gres, constraint."""
    further: Sequence[str] = ()
    """Any other options of sbatch, as they are typed there."""
    shares: bool = False
    """Other jobs may use the same nodes."""
    notice: int = NOTICE_SECONDS
    """Seconds before the time limit at which training saves its state and makes room."""


def batch_script(request: JobRequest, verb: str, command: Sequence[str], *, run: Path, folder: Path) -> str:
    """Return the script that runs `railbed COMMAND…` in `folder` and writes to the folder `run`."""
    settings = [f"#SBATCH {option}" for option in _options(request, verb)]
    words = [sys.executable, "-P", "-m", "railbed", *command]
    return "\n".join([
        "#!/bin/sh",
        "# Written by `railbed submit`. Slurm runs this on the first node of the job, at every start of it.",
        *settings,
        "",
        *(("trap '' USR1 USR2  # railbed handles them once it has started",) if verb == "train" else ()),
        "# Slurm would follow a link in place of the output. Nobody else can make one in a folder of this user.",
        f"cd {shlex.quote(str(run))} && [ -O . ] && [ -O {ABOUT} ] && [ ! -h {OUTPUT} ] || exit {NOT_OURS}",
        f"exec >>{OUTPUT} 2>&1",
        f"export {CONTINUED}={shlex.quote(str(run))}",
        f"cd {shlex.quote(str(folder))} || exit",
        f"exec {shlex.join(words)}",
        "",
    ])  # fmt: skip


def _options(request: JobRequest, verb: str) -> Iterator[str]:
    yield f"--job-name=railbed-{verb}"
    yield f"--nodes={request.nodes}"
    if request.time:
        yield f"--time={_check_word('time', request.time)}"
    for name, value in request.named.items():
        yield f"--{name}={_check_word(name, value)}"
    if not request.shares:
        yield "--exclusive"
    yield f"--output={os.devnull}"
    yield f"--export={','.join(name for name in PASSED if name in os.environ) or 'NIL'}"
    if verb == "train":
        # A lost node does not end the job, and railbed requeues it before the limit: see survival in docs/slurm.md.
        yield "--no-kill"
        yield "--requeue"
        yield f"--signal=B:USR1@{request.notice}"
    else:
        yield "--no-requeue"
    for option in request.further:
        yield _further(option)


def _check_word(name: str, value: str) -> str:
    if not WORD.fullmatch(value):
        raise UsageError(f"--{name} {value!r} has a character that no option of Slurm has")
    return value


def _further(option: str) -> str:
    if not option.startswith("-"):
        raise UsageError(f"--sbatch {option!r} is not an option of sbatch", hint="such as --sbatch=--mem=64G")
    return _check_word("sbatch", option)
