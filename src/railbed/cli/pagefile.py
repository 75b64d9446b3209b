"""Writes a page, or another format of a report, to the requested file."""

from __future__ import annotations

import sys
from pathlib import Path

from railbed.errors import UsageError, os_reason
from railbed.model.text.paths import exists, is_file
from railbed.store import followed, write_atomically

STANDARD_OUTPUT = Path("-")


def write_page(path: Path, content: bytes, *, typed: bool, hint: str = "") -> None:
    """Write to a file, atomically, or to standard output; a link is followed only in a path that the user typed."""
    if path == STANDARD_OUTPUT:
        # Unchanged: quoted text was cleaned when the page was built, and its script may contain any character.
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    is_followed = typed or not path.is_symlink()
    if is_followed and exists(path) and not is_file(path):
        raise UsageError(f"cannot write the page to {path}: it is not a file", hint=hint)
    try:
        # A link that the user named stays: its target is replaced. Another may be planted: it is replaced itself.
        write_atomically(followed(path) if typed else path, content)
    except OSError as error:
        raise UsageError(f"cannot write the page to {path}: {os_reason(error)}", hint=hint) from error
