"""A Python with torch loaded, for the nodes of a netns lab and for this machine, as in the machines of a vm lab.

A node loads torch for five seconds of processor time whenever a training starts on it; forked from a server, it has it.
A node that was killed comes back without its server, and then starts Python like any other.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from railbed import clusterfile
from railbed.lab.vm import recipe
from railbed.launch.node.spawn import ONE_THREAD
from tests.support.labs import RunningLab
from tests.support.ranks import wait_for

CODE = str(recipe.GUEST / "usr/lib/railbed")
PREPARE = (
    "import sys; sys.path.insert(0, {code!r}); import warm; warm.DOOR = {door!r}; warm.PYTHON, warm.CALLED = {names}"
)
START_SECONDS = 120


def start(lab: RunningLab, folder: Path) -> Path:
    """Start a server in every node; return the Python that calls it."""
    front, command = _write_front(folder, door="railbed-warm")
    variables = " ".join(f"{name}={value}" for name, value in ONE_THREAD.items())
    serve = f"{variables} setsid -f {shlex.join(command)} </dev/null >/dev/null 2>&1"
    ready = f"timeout {START_SECONDS} sh -c 'until grep -q railbed-warm /proc/net/unix; do sleep 0.1; done'"
    nodes = list(clusterfile.load(lab.cluster).nodes)
    for line in (serve, ready):
        for node in nodes:
            result = lab.shell(node, line)
            assert result.code == 0, result
    return front


@contextmanager
def running_here(folder: Path) -> Iterator[Path]:
    """Run a server on this machine; yield the Python that calls it."""
    door = f"railbed-warm-{os.getpid()}"
    front, command = _write_front(folder, door=door)
    with subprocess.Popen(command, env={**os.environ, **ONE_THREAD}, stdin=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: f"@{door}\n" in Path("/proc/net/unix").read_text(), START_SECONDS)
            yield front
        finally:
            server.terminate()


def _write_front(folder: Path, *, door: str) -> tuple[Path, list[str]]:
    """Write a Python that calls a server; return its path and the server's command."""
    environment = Path(sys.prefix)
    python, front = folder / "bin" / "python", folder / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to(Path(sys.executable).resolve())
    shutil.copy(environment / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(environment / "lib")
    prepare = PREPARE.format(code=CODE, door=f"\0{door}", names=(str(python), str(front)))
    front.write_text(f"#!{Path(sys.executable).resolve()} -IS\n{prepare}\nwarm.main()\n")
    front.chmod(0o755)
    return front, [str(python), "-P", "-c", f"{prepare}; warm.main()", "serve"]
