"""Run plain torchrun on every node of a lab, started over SSH as a user would, and collect its output."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import IO

from tests.support.cli import RAILBED
from tests.support.labs import RunningLab

from railbed import clusterfile

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tools" / "torchrun_peer.py"
RANKS = "-f 'python[^ ]* -u .*torchrun_peer'"
"""Matches ranks in `pkill`, but not torchrun itself."""
PORT = 29400


class Torchrun(AbstractContextManager["Torchrun"]):
    """A job on all four nodes; three are enough for it."""

    def __init__(self, lab: RunningLab) -> None:
        self._lines: queue.Queue[tuple[float, bool, str]] = queue.Queue()
        nodes = clusterfile.load(lab.cluster).nodes
        addresses = {name: str(node.ports[0].address) for name, node in nodes.items()}
        first = next(
            iter(nodes.values())
        ).host  # an address that torchrun recognises as its own; the rail is for the gradients
        self._processes = [
            subprocess.Popen(
                [RAILBED, "lab", "shell", name, "--name", lab.name, "--", _command(lab.folder, first, address)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name, address in addresses.items()
        ]
        for process in self._processes:
            for stream in (process.stdout, process.stderr):
                threading.Thread(target=self._read, args=(stream, stream is process.stderr), daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _read(self, stream: IO[str], complains: bool) -> None:
        for line in stream:
            self._lines.put((time.time(), complains, line.strip()))

    def await_steps(self, count: int, seconds: float) -> None:
        """Wait until a step is taken; the benchmark cannot continue without it."""
        for _, complains, words in self._until(time.time() + seconds):
            if not complains and words.endswith(f"step {count}"):
                return
        sys.exit(f"torchrun did not take {count} steps within {seconds:g} s")

    def watch(self, since: float, seconds: float) -> tuple[float | None, float | None]:
        """Return when it first complained after a moment, and when a rank started later took a step."""
        noticed, begun = None, False
        for at, complains, words in self._until(since + seconds):
            if at > since and complains:
                noticed = noticed or at
            elif at > since and words.endswith("begin"):
                begun = True
            elif begun and " step " in words:
                return noticed, at
        return noticed, None

    def _until(self, deadline: float) -> Iterator[tuple[float, bool, str]]:
        while (left := deadline - time.time()) > 0:
            try:
                yield self._lines.get(timeout=left)
            except queue.Empty:
                return


def _command(folder: Path, first: str, address: str) -> str:
    options = (
        f"--nnodes=3:4 --nproc-per-node=1 --max-restarts=100 --rdzv-backend=c10d --rdzv-endpoint={first}:{PORT} "
        f"--rdzv-id=bench --local-addr={address}"
    )
    env = f"PYTHONPATH={ROOT / 'src'} GLOO_SOCKET_IFNAME=rail0 OMP_NUM_THREADS=1"
    return f"cd {folder} && env {env} {sys.executable} -m torch.distributed.run {options} {SCRIPT} {folder}"
