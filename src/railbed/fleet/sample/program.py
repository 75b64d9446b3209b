"""The reader as text, and the command that runs it on a node without storing anything there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from railbed.fleet.sample import node
from railbed.parsing.counters import ETHTOOL, RDMA
from railbed.parsing.shell import quote_path

PACKAGE = "railbed.fleet.sample.node"
OLDEST_PYTHON = (3, 7)
START = """\
import json, os, sys, types
if sys.version_info < {oldest!r}:
    sys.exit("Python %d.%d is too old, sampling needs {needed}" % sys.version_info[:2])
package = sys.modules[{package!r}] = types.ModuleType({package!r})
for name, text in json.loads({modules!r}).items():
    if name != "nvml" or os.access("/proc/driver/nvidia", os.F_OK):
        module = sys.modules[{package!r} + "." + name] = types.ModuleType(name)
        setattr(package, name, module)
        exec(compile(text, name, "exec"), module.__dict__)
package.reader.main()
"""
FETCH = (
    "import os; text = bytearray(); "
    "[text.extend(os.read(0, {size} - len(text)) or os._exit(1)) for _ in iter(lambda: len(text) < {size}, False)]; "
    "exec(bytes(text))"
)
"""Reads exactly the program: what follows is for the reader."""


@cache
def program() -> bytes:
    """Return the program that a node runs."""
    folder = Path(node.__file__).parent
    modules = {
        name: (folder / f"{name}.py").read_text("utf-8")
        for name in ("group", "netlink", "files", "ethtool", "qdisc", "sockets", "nvml", "reader")
    }
    return START.format(
        package=PACKAGE,
        oldest=OLDEST_PYTHON,
        needed=".".join(map(str, OLDEST_PYTHON)),
        modules=json.dumps(modules),
    ).encode()


def command(python: str) -> str:
    """Return the command that runs it: Python with nothing but its own library, to start quickly."""
    return f"exec {quote_path(python)} -I -S -B -c '{FETCH.format(size=len(program()))}'"


def order(interval: float, ports: Sequence[str]) -> bytes:
    """Return the first line of input: how often to sample, which interfaces, and which counters."""
    wanted = {
        "interval_us": round(interval * 1e6),
        "ports": list(ports),
        "rdma": list(RDMA),
        "ethtool": list(ETHTOOL),
    }
    return json.dumps(wanted, separators=(",", ":")).encode() + b"\n"
