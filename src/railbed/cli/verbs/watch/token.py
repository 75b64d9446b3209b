"""The token that a page or an exporter asks for: from a file, so that it is in no command line."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from railbed.errors import UsageError, os_reason

VARIABLE = "RAILBED_TOKEN_FILE"
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
"""What fits into an Authorization header, and is hard to guess."""


def own_token() -> str | None:
    """Return the token in the file that the environment names; None if it names none."""
    file = os.environ.get(VARIABLE)
    return read_token(Path(file)) if file else None


def read_token(path: Path) -> str:
    """Return the token in a file; raise UsageError if others can read the file, or if it holds no good token."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(4096).decode("ascii", "replace").strip()
    except OSError as error:
        raise UsageError(
            f"the token in {path} cannot be read: {os_reason(error)}", hint=f"correct {VARIABLE}, or unset it"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"others can read the token in {path}", hint=f"`chmod 600 {path}`")
    if not TOKEN.fullmatch(text):
        raise UsageError(
            f"{path} does not hold a token: 16 to 512 letters, digits and . _ ~ + / = -",
            hint=f"`openssl rand -hex 32 > {path}` makes one",
        )
    return text
