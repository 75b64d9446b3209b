"""Modules as one archive, which Python imports from: one file to send and to verify instead of hundreds.

It has the sources, and the byte code that Python has stored for them here, so that nodes with the same version do not
compile them at every start. Other versions ignore the byte code. The same content always makes the same archive.
"""

from __future__ import annotations

import contextlib
import io
import os
import py_compile
import sys
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from zipfile import ZipFile, ZipInfo

HEADER_BYTES = 16
BY_TIME, BY_HASH = bytes(4), (1).to_bytes(4, "little")
"""Flags of byte code: valid for a source of a certain time and size, or by the hash of its source, unchecked."""


def archive(modules: Mapping[str, Path]) -> bytes:
    """Return an archive of modules, by their path in it."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as file:
        for name, path in sorted(modules.items()):
            source = path.read_bytes()
            file.writestr(ZipInfo(name), source)
            if code := _byte_code(path):
                file.writestr(ZipInfo(f"{name}c"), MAGIC_NUMBER + BY_HASH + source_hash(source) + code)
    return buffer.getvalue()


def _byte_code(path: Path) -> bytes:
    """Return the byte code of a source as it is stored here, without its header; empty if it cannot be stored."""
    stored = Path(cache_from_source(str(path)))
    if not _is_current(stored, path) and not sys.dont_write_bytecode:
        with contextlib.suppress(OSError):  # an installation that cannot be written to
            py_compile.compile(str(path), quiet=2)
    return stored.read_bytes()[HEADER_BYTES:] if _is_current(stored, path) else b""


def _is_current(stored: Path, path: Path) -> bool:
    try:
        with stored.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError:
        return False
    return header == MAGIC_NUMBER + BY_TIME + _time_and_size(path.stat())


def _time_and_size(about: os.stat_result) -> bytes:
    return b"".join((int(value) & 0xFFFFFFFF).to_bytes(4, "little") for value in (about.st_mtime, about.st_size))
