"""Jobs in the lab with Slurm: railbed inside them, as root or as an ordinary user, and what is left of them.

All tests of Slurm share one lab (`slurm_lab` in conftest.py) and are in the group `slurm`. A test leaves it as it was:
no job, every node idle.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.cli import RAILBED, Result, environment
from tests.support.labs import RunningLab, cache_variables
from tests.support.ordinary import readable_python
from tests.support.smallrun import write_text
from tests.support.training import SMALL, Training

NODES = ["node1", "node2", "node3"]
# Tests may run a Python that only root can read; an ordinary user gets that permission, and no other.
AS_NOBODY = (
    "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
)
USERS = {"root": "", "nobody": AS_NOBODY}
UIDS = {"root": 0, "nobody": 65534}
WAIT_SECONDS = 120


@dataclass(frozen=True)
class User:
    """Somebody who works on the controller, in a folder that is also the home folder."""

    lab: RunningLab
    name: str
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    """Of the environment of every command."""
    program: tuple[str, ...] = (RAILBED,)
    """railbed, as this user starts it."""

    @property
    def runs(self) -> list[Path]:
        """The folders of the runs, oldest first."""
        return sorted((self.folder / "runs").iterdir()) if (self.folder / "runs").exists() else []

    def inside(self, job: str) -> User:
        """Return this user in a shell of a job."""
        return replace(self, variables={**self.variables, "SLURM_JOB_ID": job})

    def line(self, *words: str, **variables: str) -> str:
        """Return a command as a line for the controller's shell."""
        home = str(self.folder)
        settings = {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home, **self.variables, **variables}
        assigned = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items() if value)
        return f"cd {home} && exec env {assigned} {USERS[self.name]} {shlex.join(words)}"

    def run(self, *words: str, **variables: str) -> Result:
        """Run a command on the controller."""
        return self.lab.run_inside("controller", self.line(*words, **variables))

    def railbed(self, *arguments: str, **variables: str) -> Result:
        """Run railbed on the controller."""
        return self.run(*self.program, *arguments, **variables)

    @contextmanager
    def started(self, *words: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command on the controller; it is killed in the end if it still runs."""
        # The connection's end must end the command, too: a process that sshd started outlives it otherwise.
        line = self.line("setpriv", "--pdeathsig", "KILL", *words, **variables)
        with subprocess.Popen(
            [RAILBED, "lab", "shell", "controller", "--name", self.lab.name, "--", line],
            env=environment(**cache_variables()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def training(self, *options: str, **variables: str) -> Iterator[Training]:
        """Start a training on the controller."""
        words = (*self.program, "train", *options, "--json")
        with self.started(*words, **variables) as process, Training(process) as run:
            yield run


@contextmanager
def user_of(lab: RunningLab, name: str, python: Path | None = None) -> Iterator[User]:
    """Yield a user whose folder has a recipe, `small.yaml`, and a site file with the Python to train with."""
    with tempfile.TemporaryDirectory(prefix="railbed-job-") as path:
        folder = Path(path)
        folder.chmod(0o755)
        write_text(folder)
        (folder / "small.yaml").write_text(SMALL)
        if python:
            (folder / "railbed").mkdir()
            (folder / "railbed" / "slurm.yaml").write_text(f"training: {{python: {python}, workdir: {folder}}}\n")
        for own in (folder, *folder.rglob("*")):
            os.chown(own, UIDS[name], UIDS[name])
        program = (RAILBED,) if name == "root" else (str(readable_python(folder / "python")), "-P", "-m", "railbed")
        yield User(lab, name, folder, program=program)


@contextmanager
def allocation(user: User, *options: str) -> Iterator[str]:
    """Yield the number of a job without a program of its own; it is cancelled in the end."""
    started = user.run("salloc", "--no-kill", "--no-shell", *(options or ("-N3",)))
    assert started.code == 0, started
    number = started.err.split("job allocation ")[1].split()[0]
    try:
        yield number
    finally:
        user.lab.run_inside("controller", f"scancel {number}")
        until(lambda: not jobs(user.lab, number))


def jobs(lab: RunningLab, number: str = "") -> list[str]:
    """Return the jobs that wait, run or end, or one of them, as `number state`."""
    only = f"--jobs={number}" if number else ""
    states = "PENDING,RUNNING,SUSPENDED,COMPLETING,CONFIGURING"
    result = lab.run_inside("controller", f"squeue --noheader --states={states} --format='%A %T' {only}")
    return result.out.splitlines()


def states(lab: RunningLab) -> dict[str, str]:
    """Return the state of each node as Slurm has it; empty while slurmctld does not answer."""
    result = lab.run_inside("controller", "sinfo --noheader --Node --format '%N %T'")
    return {line.split()[0]: line.split()[1] for line in result.out.splitlines()}


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; what does not by then never does."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)
