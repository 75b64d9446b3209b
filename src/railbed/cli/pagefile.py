"""Writing a page, or another form of a report, where the user wants it."""

from __future__ import annotations

import sys
from pathlib import Path

from railbed.errors import UsageError, os_reason
from railbed.store import followed, write_atomically

STANDARD_OUTPUT = Path("-")


def write_page(path: Path, content: bytes, *, hint: str = "") -> None:
    """Write to a file, whole or not at all, or to standard output."""
    if path == STANDARD_OUTPUT:
        # As it is: what it quotes was cleaned when it was made, and a page's own script may hold any character.
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    if path.exists() and not path.is_file():
        raise UsageError(f"cannot write the page to {path}: it is not a file", hint=hint)
    try:
        # A link stays one: the file it leads to is replaced.
        write_atomically(followed(path), content)
    except OSError as error:
        raise UsageError(f"cannot write the page to {path}: {os_reason(error)}", hint=hint) from error
