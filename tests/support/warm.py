"""A Python with torch loaded, for the nodes of a netns lab and for this machine, as in the machines of a vm lab.

A node loads torch for five seconds of processor time whenever a training starts on it; forked from a server, it has it.
Servers also have what tuning needs: all are forks of one process on this machine (`torch_process.py`).
A node that was killed gets a server again when it is healed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from railbed import clusterfile
from railbed.lab.vm import recipe
from tests.support import torch_process
from tests.support.labs import RunningLab
from tests.support.namespaces import first_process
from tests.support.ranks import wait_for

CODE = str(recipe.GUEST / "usr/lib/railbed")
PREPARE = (
    "import sys; sys.path.insert(0, {code!r}); import warm; warm.DOOR = {door!r}; warm.PYTHON, warm.CALLED = {names}"
)
SYSTEM_PYTHON = Path("/usr/bin/python3")
"""Everybody can run it, which is not true of the Python that runs the tests; to call a server, any version will do."""
INTO_NODES = f"""
import os
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.support.namespaces import fork_into
from tests.support.ordinary import become_nobody
del sys.path[0]
for name in [name for name in sys.modules if name.partition(".")[0] == "railbed"]:
    del sys.modules[name]  # programs have the code that was shipped to them
if not any(fork_into(int(line)) for line in sys.stdin):
    os._exit(0)
"""
"""Forks a server into each node that is given by its first process, a line each."""
SERVER = """
{prepare}
{then}
warm.LOADED = ()
sys.argv[1:] = ["serve"]
warm.main()
"""
NOBODY_TOO = """
if not os.fork():
    become_nobody()
    {prepare}
"""
"""Forks a second server, of nobody."""
FRONT = """#!/bin/sh
case " $*" in *" -m railbed."*) exec {call} "$@" ;; esac
exec {python} "$@"
"""
"""Modules of railbed run in a fork of the server; all else is quicker without torch. `call` runs anything in a fork."""
START_SECONDS = 300


class Front(NamedTuple):
    """A Python that calls a server."""

    path: Path
    prepare: str
    """What it and the server run first: Python statements in one line."""

    def server(self, then: str = "") -> list[str]:
        """Return the server's command, with statements that run before it serves."""
        return torch_process.command(SERVER.format(prepare=self.prepare, then=then))


@dataclass
class Nodes:
    """The nodes of a lab, and the process that forks servers into them."""

    lab: RunningLab
    process: subprocess.Popen[str]
    served: dict[str, int | None]
    """The first process of each node that has servers."""

    def serve(self) -> None:
        """Fork servers into nodes that have none: new nodes, and nodes that were killed and are up again."""
        assert self.process.stdin
        for node in self.served:
            first = first_process(self.lab.name, node)
            if first and first != self.served[node]:
                print(first, file=self.process.stdin, flush=True)
                self.served[node] = first


@contextmanager
def running(lab: RunningLab, folder: Path, *, door: str = "railbed-warm") -> Iterator[Path]:
    """Run a server in every node; yield the Python that calls it."""
    front = _write_front(folder, door=door)
    with _serving(lab, front.server(INTO_NODES), [door]):
        yield front.path


@contextmanager
def running_for_users(lab: RunningLab, folder: Path) -> Iterator[dict[str, Path]]:
    """Run servers of root and of nobody in every node; yield the Python of each. Nobody needs to read the folder."""
    for name in ("warm.py", "warm_server.py"):
        shutil.copy(Path(CODE) / name, folder)
    doors = {user: f"railbed-warm-{user}" for user in ("root", "nobody")}
    instead = {"nobody": SYSTEM_PYTHON}
    fronts = {
        user: _write_front(folder / user, door=door, code=folder, instead=instead.get(user))
        for user, door in doors.items()
    }
    both = INTO_NODES + NOBODY_TOO.format(prepare=fronts["nobody"].prepare)
    with _serving(lab, fronts["root"].server(both), list(doors.values())):
        yield {user: front.path for user, front in fronts.items()}


@contextmanager
def _serving(lab: RunningLab, command: list[str], doors: list[str]) -> Iterator[None]:
    """Run a command that forks servers into every node; yield when all doors are served there."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:  # ends with its input
        nodes = Nodes(lab, process, dict.fromkeys(clusterfile.load(lab.cluster).nodes))
        nodes.serve()
        for node in nodes.served:
            ready = lab.run_inside(node, _opened(doors))
            assert ready.code == 0, ready
        lab.after_healing.append(nodes.serve)
        yield
        lab.after_healing.remove(nodes.serve)


def _opened(doors: list[str]) -> str:
    """Return the command that waits until all doors are served on a node."""
    opened = " && ".join(f"grep -q {door}$ /proc/net/unix" for door in doors)
    return f"timeout {START_SECONDS} sh -c 'until {opened}; do sleep 0.1; done'"


@contextmanager
def running_here(folder: Path) -> Iterator[Path]:
    """Run a server on this machine; yield the Python that calls it."""
    door = f"railbed-warm-{os.getpid()}"
    front = _write_front(folder, door=door)
    with subprocess.Popen(front.server(), stdin=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: f"@{door}\n" in Path("/proc/net/unix").read_text(), START_SECONDS)
            yield front.path
        finally:
            server.terminate()


def _write_front(folder: Path, *, door: str, code: Path | None = None, instead: Path | None = None) -> Front:
    """Write a Python that calls a server; `instead`, a Python without torch, is for programs that need no server."""
    environment = Path(sys.prefix)
    python, front = folder / "bin" / "python", folder / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(Path(sys.executable).resolve())
    shutil.copy(environment / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(environment / "lib")
    prepare = PREPARE.format(code=str(code or CODE), door=f"\0{door}", names=(str(instead or python), str(front)))
    caller = SYSTEM_PYTHON if code else Path(sys.executable).resolve()
    call = front if instead else folder / "bin" / "call"
    call.write_text(f"#!{caller} -IS\n{prepare}\nwarm.main()\n")
    call.chmod(0o755)
    if not instead:
        front.write_text(FRONT.format(call=shlex.quote(str(call)), python=shlex.quote(str(python))))
        front.chmod(0o755)
    return Front(front, prepare)
