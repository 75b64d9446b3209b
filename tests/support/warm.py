"""A Python with torch loaded, in every node of a netns lab, as in the machines of a vm lab.

A node loads torch for five seconds of processor time whenever a training starts on it; forked from a server, it has it.
A node that was killed comes back without its server, and then starts Python like any other.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from railbed import clusterfile
from railbed.lab.vm import recipe
from railbed.launch.node.spawn import ONE_THREAD
from tests.support.labs import RunningLab

FRONT = """#!{base} -IS
import sys
sys.path.insert(0, {code!r})
import warm
warm.PYTHON, warm.CALLED = {python!r}, {front!r}
warm.main()
"""


def start(lab: RunningLab, folder: Path) -> Path:
    """Start a server in every node; return the Python that calls it."""
    environment = Path(sys.prefix)
    python, front = folder / "bin" / "python", folder / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to(Path(sys.executable).resolve())
    shutil.copy(environment / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(environment / "lib")
    code = str(recipe.GUEST / "usr/lib/railbed")
    base = Path(sys.executable).resolve()
    front.write_text(FRONT.format(base=base, code=code, python=str(python), front=str(front)))
    front.chmod(0o755)
    text = f"import sys; sys.path.append({code!r}); import warm; warm.CALLED = {str(front)!r}; warm.main()"
    variables = " ".join(f"{name}={value}" for name, value in ONE_THREAD.items())
    serve = f"{variables} setsid -f {python} -P -c {shlex.quote(text)} serve </dev/null >/dev/null 2>&1"
    ready = "timeout 120 sh -c 'until grep -q railbed-warm /proc/net/unix; do sleep 0.1; done'"
    nodes = list(clusterfile.load(lab.cluster).nodes)
    for command in (serve, ready):
        for node in nodes:
            result = lab.shell(node, command)
            assert result.code == 0, result
    return front
