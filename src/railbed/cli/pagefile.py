"""Writes a page, or another format of a report, to the requested file."""

from __future__ import annotations

import sys
from pathlib import Path

from railbed.errors import UsageError, os_reason
from railbed.store import followed, write_atomically

STANDARD_OUTPUT = Path("-")


def write_page(path: Path, content: bytes, *, hint: str = "") -> None:
    """Write to a file, atomically, or to standard output."""
    if path == STANDARD_OUTPUT:
        # Unchanged: quoted text was cleaned when the page was built, and its script may contain any character.
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    if path.exists() and not path.is_file():
        raise UsageError(f"cannot write the page to {path}: it is not a file", hint=hint)
    try:
        # A link stays a link: its target is replaced.
        write_atomically(followed(path), content)
    except OSError as error:
        raise UsageError(f"cannot write the page to {path}: {os_reason(error)}", hint=hint) from error
