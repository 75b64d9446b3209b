"""Programs of our own on a node: sent over its connection and run by its Python, without storing anything there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import railbed
from railbed.model.text import printable
from railbed.parsing.text import quote_path
from railbed.transport.base import Program

OLDEST_PYTHON = (3, 7)
ROOT = Path(railbed.__file__).parent.parent
START = """\
import json, os, sys, types
if sys.version_info < {oldest!r}:
    sys.exit("Python %d.%d is too old, {purpose} needs {needed}" % sys.version_info[:2])
package = sys.modules[{package!r}] = types.ModuleType({package!r})
only_with = {only_with!r}
for name, text in json.loads({modules!r}).items():
    parent, _, own = name.rpartition(".")
    if own not in only_with or os.access(only_with[own], os.F_OK):
        module = sys.modules[name] = types.ModuleType(name)
        if parent == {package!r}:
            setattr(package, own, module)
        exec(compile(text, name, "exec"), module.__dict__)
package.{main}.main()
"""
FETCH = (
    "import os; text = bytearray(); "
    "[text.extend(os.read(0, {size} - len(text)) or os._exit(1)) for _ in iter(lambda: len(text) < {size}, False)]; "
    "exec(bytes(text))"
)
"""Reads exactly the program: what follows is for the program."""
AS_ROOT = (
    "PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin; "
    'if [ "$(id -u)" -gt 0 ] && sudo -n true 2>/dev/null; then exec sudo -n "$@"; else exec "$@"; fi'
)
LINE_BYTES = 256 * 1024
BANNER_LINES = 1000
"""Lines that a login may print before the program's first."""


@dataclass(frozen=True)
class NodeProgram:
    """Modules of a package that nodes run; the last one has `main`."""

    purpose: str
    """What it is for, in the message about a Python that is too old."""
    package: str
    folder: Path
    modules: Sequence[str]
    shared: Sequence[str] = ()
    """Modules of railbed outside the package, by their full names; they are loaded first."""
    only_with: Mapping[str, str] = field(default_factory=dict)
    """Modules that are loaded only if a path exists on the node."""

    @cached_property
    def text(self) -> bytes:
        """The program, to be written first to its input."""
        paths = {name: ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in self.shared}
        paths |= {f"{self.package}.{name}": self.folder / f"{name}.py" for name in self.modules}
        modules = {name: path.read_text("utf-8") for name, path in paths.items()}
        start = START.format(
            oldest=OLDEST_PYTHON,
            needed=".".join(map(str, OLDEST_PYTHON)),
            purpose=self.purpose,
            package=self.package,
            only_with=dict(self.only_with),
            modules=json.dumps(modules),
            main=self.modules[-1],
        )
        return start.encode()

    def command(self, python: str, *, as_root: bool = False) -> str:
        """Return the command that runs it: Python with nothing but its own library, to start quickly.

        `as_root` uses sudo if that needs no password; otherwise the program runs without, and finds out what it may do.
        """
        words = f"{quote_path(python)} -I -S -B -c '{FETCH.format(size=len(self.text))}'"
        return f"exec /bin/sh -c {shlex.quote(AS_ROOT)} sh {words}" if as_root else f"exec {words}"


class ProgramOutput:
    """The output of a program, line by line."""

    def __init__(self, remote: Program) -> None:
        self.remote = remote
        self.problem = ""
        self._buffer = bytearray()

    async def line(self) -> bytes | None:
        """Return the next line, or None at the end, which also comes if a line is too long."""
        while (at := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LINE_BYTES:
                self.problem = f"it sent a line of more than {LINE_BYTES // 1024} KiB"
                return None
            chunk = await self.remote.read(1)
            if not chunk:
                return None
            self._buffer += chunk
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line

    async def some(self, most: int) -> bytes:
        """Return the next bytes, at most so many; none at the end."""
        data = bytes(self._buffer[:most]) if self._buffer else await self.remote.read(1)
        if self._buffer:
            del self._buffer[:most]
        elif len(data) > most:
            self._buffer += data[most:]
            data = data[:most]
        return data

    async def last_words(self, last: bytes) -> str:
        """Return the last line that a program wrote before it ended, which is why it did not start."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                last = (await self.remote.read(2)).strip().rpartition(b"\n")[2] or last
        return printable(last[:200].decode("utf-8", "replace")) or "it ended at once"
