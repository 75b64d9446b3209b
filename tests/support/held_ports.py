"""Ports of nodes that another user holds."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.labs import RunningLab
from tests.support.strangers import as_user, open_folder

HOLDER = Path(__file__).parent / "port_holder.py"


@contextmanager
def holding(lab: RunningLab, user: str, nodes: Sequence[str], port: int) -> Iterator[None]:
    """Let a user hold a port on nodes, and take over others there."""
    with open_folder(0o755) as folder, ExitStack() as stack:
        script = shutil.copy(HOLDER, folder / HOLDER.name)
        for node in nodes:
            words = [*as_user(user), sys.executable, str(script), str(port)]
            process = stack.enter_context(lab.start_inside(node, f"exec {shlex.join(words)}"))
            assert process.stdin is not None
            stack.callback(process.stdin.close)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield


def kill_a_rank(lab: RunningLab, node: str) -> None:
    """Kill the ranks of a node: the next generation follows."""
    kill = "until pkill --signal KILL '^rank[0-9]'; do sleep 0.1; done"
    assert lab.run_inside(node, f"timeout 60 sh -c {shlex.quote(kill)}").code == 0
