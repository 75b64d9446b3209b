"""A Python with torch loaded, for the nodes of a netns lab and for this machine, as in the machines of a vm lab.

A node loads torch for five seconds of processor time whenever a training starts on it; forked from a server, it has it.
The servers of all nodes are forks of one process on this machine, which also loads what tuning needs.
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
from typing import NamedTuple

from railbed import clusterfile
from railbed.lab.vm import recipe
from railbed.launch.node.spawn import ONE_THREAD
from tests.support.labs import RunningLab
from tests.support.namespaces import process_of
from tests.support.ranks import wait_for

CODE = str(recipe.GUEST / "usr/lib/railbed")
PREPARE = (
    "import sys; sys.path.insert(0, {code!r}); import warm; warm.DOOR = {door!r}; warm.PYTHON, warm.CALLED = {names}"
)
SYSTEM_PYTHON = Path("/usr/bin/python3")
"""Everybody can run it, which is not true of the Python that runs the tests; to call a server, any version will do."""
NOBODY_TOO = """
import os
for name in warm.LOADED:
    __import__(name)
if not os.fork():
    sys.path.insert(0, {root!r})
    from tests.support.ordinary import become_nobody
    del sys.path[0]
    become_nobody()
    {prepare}
"""
"""Forks a second server, of nobody, which has torch loaded as well."""
INTO_NODES = """
import os
for name in {modules}:
    __import__(name)
sys.path.insert(0, {root!r})
from tests.support.namespaces import fork_into
del sys.path[0]
if not fork_into({processes}):
    os._exit(0)
"""
"""Forks a server into each node, in which the given processes are."""
TUNING = (
    "torch._dynamo",
    "peft",
    "transformers.models.llama.modeling_llama",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.integrations.bitsandbytes",
)
"""Modules that ranks load when they tune a model."""
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
START_SECONDS = 120


class Front(NamedTuple):
    """A Python that calls a server."""

    path: Path
    real: Path
    """The Python that runs the server."""
    prepare: str
    """What both run first: Python statements in one line."""

    def server(self, then: str = "") -> list[str]:
        """Return the server's command, with statements that run before it serves."""
        return [str(self.real), "-P", "-c", f"{self.prepare}\n{then}\nwarm.main()", "serve"]


def start(lab: RunningLab, folder: Path) -> Path:
    """Start a server in every node; return the Python that calls it."""
    door = "railbed-warm"
    front = _write_front(folder, door=door)
    nodes = list(clusterfile.load(lab.cluster).nodes)
    processes = [process_of(lab.shell(node, "readlink /proc/self/ns/pid").out.strip()) for node in nodes]
    forking = INTO_NODES.format(root=str(Path(__file__).parents[2]), modules=TUNING, processes=processes)
    subprocess.run(
        front.server(forking),
        env={**os.environ, **ONE_THREAD, **OFFLINE},
        stdin=subprocess.DEVNULL,
        timeout=START_SECONDS,
        check=True,
    )
    for node in nodes:
        ready = lab.shell(node, _opened([door]))
        assert ready.code == 0, ready
    return front.path


def start_for_users(lab: RunningLab, folder: Path) -> dict[str, Path]:
    """Start servers of root and of nobody in every node; return the Python of each. Nobody needs to read the folder."""
    code = Path(shutil.copy(Path(CODE) / "warm.py", folder)).parent
    doors = {user: f"railbed-warm-{user}" for user in ("root", "nobody")}
    instead = {"nobody": SYSTEM_PYTHON}
    fronts = {
        user: _write_front(folder / user, door=door, code=code, instead=instead.get(user))
        for user, door in doors.items()
    }
    nobody_too = NOBODY_TOO.format(root=str(Path(__file__).parents[2]), prepare=fronts["nobody"].prepare)
    _serve(lab, fronts["root"].server(nobody_too), list(doors.values()))
    return {user: front.path for user, front in fronts.items()}


def _serve(lab: RunningLab, command: list[str], doors: list[str]) -> None:
    """Run a command in every node, and wait until it serves all doors there."""
    variables = " ".join(f"{name}={value}" for name, value in ONE_THREAD.items())
    serve = f"{variables} setsid -f {shlex.join(command)} </dev/null >/dev/null 2>&1"
    nodes = list(clusterfile.load(lab.cluster).nodes)
    for line in (serve, _opened(doors)):
        for node in nodes:
            result = lab.shell(node, line)
            assert result.code == 0, result


def _opened(doors: list[str]) -> str:
    """Return the command that waits until all doors are served on a node."""
    opened = " && ".join(f"grep -q {door}$ /proc/net/unix" for door in doors)
    return f"timeout {START_SECONDS} sh -c 'until {opened}; do sleep 0.1; done'"


@contextmanager
def running_here(folder: Path) -> Iterator[Path]:
    """Run a server on this machine; yield the Python that calls it."""
    door = f"railbed-warm-{os.getpid()}"
    front = _write_front(folder, door=door)
    with subprocess.Popen(front.server(), env={**os.environ, **ONE_THREAD}, stdin=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: f"@{door}\n" in Path("/proc/net/unix").read_text(), START_SECONDS)
            yield front.path
        finally:
            server.terminate()


def _write_front(folder: Path, *, door: str, code: Path | None = None, instead: Path | None = None) -> Front:
    """Write a Python that calls a server; `instead` is for programs that need no server."""
    environment = Path(sys.prefix)
    python, front = folder / "bin" / "python", folder / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(Path(sys.executable).resolve())
    shutil.copy(environment / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(environment / "lib")
    prepare = PREPARE.format(code=str(code or CODE), door=f"\0{door}", names=(str(instead or python), str(front)))
    caller = SYSTEM_PYTHON if code else Path(sys.executable).resolve()
    front.write_text(f"#!{caller} -IS\n{prepare}\nwarm.main()\n")
    front.chmod(0o755)
    return Front(front, python, prepare)
