"""Runs on a node of a job, and puts the job back into the queue if its batch host is dead. Standard library only.

With `--no-kill`, a job whose batch host dies stays until its time limit, without the script that runs everything in it.
The host counts as dead if two independent signs agree: for SILENT_SECONDS neither the connection nor the file in the
run's folder had a heartbeat of railbed, and the host's slurmd refuses connections, or Slurm itself reports it as down.
A host that is only slow, or a railbed that is only stopped, has a slurmd that answers.

The program and one line of JSON come through standard input, then a byte every second, and `end` at the end. Input that
ends without it is no sign of anything: both a killed host and a killed railbed close it.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

SILENT_SECONDS = 20.0
LOOK_SECONDS = 3.0
"""Between two looks at the file, the host and the job."""
CONNECT_SECONDS = 3.0
REFUSALS = 3
"""How many connections in a row the host's slurmd has to refuse."""
ANSWER_SECONDS = 20.0
SLURMD_PORT = 6818
NODE_STATE = re.compile(r"(?:^| )State=(\S+)")
NODE_ADDRESS = re.compile(r"(?:^| )NodeAddr=(\S+)")
NODE_PORT = re.compile(r"(?:^| )Port=(\d{1,5})\b")
JOB_VALUE = re.compile(r"(?:^| )(JobState|Restarts|BatchHost)=(\S*)")
DEAD = ("DOWN", "NOT_RESPONDING", "FAIL", "*")
"""Parts of the state of a node that does not answer Slurm."""


class Watchdog:
    """Watches one batch host."""

    def __init__(self, job: int, host: str, folder: str) -> None:
        self._job, self._host, self._folder = job, host, Path(folder)
        self._heard = time.monotonic()
        self._beats = b""
        self._refusals = 0
        self._place: tuple[str, int] | None = None
        self._restarts = ""

    def run(self, stdin: int) -> None:
        """Watch until railbed ends, or the job, or its batch host."""
        node = _ask("scontrol", "--oneliner", "show", "node", self._host) or ""
        self._place = read_place(node) or (self._host, SLURMD_PORT)
        self._restarts = self._job_values().get("Restarts", "")
        looked = 0.0
        while True:
            ready = select.select([stdin] if stdin >= 0 else [], [], [], 1.0)[0]
            if ready:
                data = os.read(stdin, 4096)
                if b"end" in data:
                    return
                if data:
                    self._heard = time.monotonic()
                else:
                    stdin = -1
            if time.monotonic() - looked >= LOOK_SECONDS:
                if self._look(closed=stdin < 0):
                    return
                looked = time.monotonic()

    def _look(self, *, closed: bool) -> bool:
        """Look once; return whether there is nothing left to watch."""
        self._read_file()
        silence = time.monotonic() - self._heard
        if not closed and silence < SILENT_SECONDS:
            self._refusals = 0
            return False
        job = self._job_values()
        if job and not self._is_ours(job):
            return True
        if silence < SILENT_SECONDS or not self._is_dead():
            return False
        return self._requeue(silence)

    def _read_file(self) -> None:
        """Take a heartbeat that came through the run's folder; the clocks of machines are not compared."""
        try:
            beats = (self._folder / "alive").read_bytes()
        except OSError:
            return
        if beats != self._beats:
            self._beats, self._heard = beats, time.monotonic()

    def _job_values(self) -> dict[str, str]:
        """Return what Slurm reports about the job; empty if it does not answer."""
        return read_job(_ask("scontrol", "--oneliner", "show", "job", str(self._job)) or "")

    def _is_ours(self, job: dict[str, str]) -> bool:
        """Whether it is still the same start of the job: another one has a watchdog of its own."""
        state = job.get("JobState"), job.get("BatchHost"), job.get("Restarts", "")
        return state == ("RUNNING", self._host, self._restarts or job.get("Restarts", ""))

    def _is_dead(self) -> bool:
        """Whether the batch host shows the second sign."""
        assert self._place
        try:
            socket.create_connection(self._place, CONNECT_SECONDS).close()
            self._refusals = 0
        except OSError:
            self._refusals += 1
        if self._refusals >= REFUSALS:
            return True
        return is_down(_ask("scontrol", "--oneliner", "show", "node", self._host) or "")

    def _requeue(self, silence: float) -> bool:
        """Requeue the job; cancel it if Slurm refuses that. Return whether one of them worked."""
        reason = f"its batch host {self._host} was silent for {silence:.0f} s"
        self._note(f"{reason}, so {socket.gethostname()} requeued it")
        if _ask("scontrol", "requeue", str(self._job)) is not None:
            return True
        self._note(f"{reason} and Slurm refused to requeue it, so {socket.gethostname()} cancelled it")
        return _ask("scancel", str(self._job)) is not None

    def _note(self, sentence: str) -> None:
        """Leave the reason in the run's folder, before Slurm ends this step."""
        try:
            new = self._folder / f".watchdog.{os.getpid()}.new"
            new.write_text(json.dumps({"job": self._job, "reason": sentence}))
            new.replace(self._folder / "watchdog.json")
        except OSError:
            pass


def read_place(node: str) -> tuple[str, int] | None:
    """Return the address and port of a node's slurmd from `scontrol show node`."""
    address, port = NODE_ADDRESS.search(node), NODE_PORT.search(node)
    return (address[1], int(port[1]) if port else SLURMD_PORT) if address else None


def is_down(node: str) -> bool:
    """Whether Slurm reports a node as one that does not answer."""
    state = NODE_STATE.search(node)
    return state is not None and any(part in state[1] for part in DEAD)


def read_job(printed: str) -> dict[str, str]:
    """Return state, restarts and batch host of a job from `scontrol show job`; of each, the first."""
    values: dict[str, str] = {}
    for name, value in JOB_VALUE.findall(printed[: 1 << 16]):
        values.setdefault(name, value)
    return values


def _ask(*command: str) -> str | None:
    """Return what a command of Slurm prints; None if it fails or does not answer."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def main() -> None:
    """Read the settings, and watch."""
    settings = b""
    while not settings.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("no settings")
        settings += byte
    values = json.loads(settings)
    Watchdog(int(values["job"]), str(values["host"]), str(values["folder"])).run(0)
