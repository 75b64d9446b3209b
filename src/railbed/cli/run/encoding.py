"""What a stream cannot encode, in ASCII: arrows, dots, units and blocks of charts, rather than question marks.

Python writes UTF-8 also where the locale is C, so that a terminal without UTF-8 would show garbage. Programs that ask
the locale (`systemctl`, `tree`) print ASCII there, and so does this one; only where the user chose that locale, since
in a container it usually just is not set.
"""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any, TextIO

from railbed.model.text import clean, escape

ERRORS = "railbed.ascii"
"""The name under which the codecs find `replace`."""
ASCII_LOCALES = ("C", "POSIX")
DECIDED = ("PYTHONUTF8", "PYTHONIOENCODING")
"""Variables with which the user has chosen an encoding."""
REPLACEMENTS: Mapping[str, str] = {
    **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
    **dict.fromkeys("─━╴╶", "-"),
    **dict.fromkeys("│┃╷╵", "|"),
    **dict.fromkeys("├└┌┐┘┴┬┤┼╭╮╯╰", "+"),
    **dict.fromkeys("▶⟩", ">"),
    **dict.fromkeys("◀⟨", "<"),
    **dict.fromkeys("‘’′", "'"),
    **dict.fromkeys("“”″", '"'),
    **dict.fromkeys("·–—−", "-"),
    **dict.fromkeys("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}°", " "),
    "→": "->",
    "←": "<-",
    "▲": "^",
    "▼": "v",
    "⟦": "[",
    "⟧": "]",
    "µ": "u",
    "μ": "u",
    "×": "x",
    "÷": "/",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "∞": "inf",
    "½": "1/2",
    "✓": "+",
    "✗": "x",
    "●": "*",
}
CUT = "~"
"""Marks where a text was cut off to fit, in one column as `…` does."""


def is_ascii_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the user chose a locale without UTF-8, which Python has replaced by UTF-8."""
    chosen = environ.get("LC_ALL") or environ.get("LANG")
    return bool(sys.flags.utf8_mode) and chosen in ASCII_LOCALES and not any(map(environ.get, DECIDED))


def is_unicode(stream: TextIO) -> bool:
    """Whether a stream can encode every character; one that writes to memory has no encoding, and can."""
    return (stream.encoding or "utf-8").lower().startswith("utf")


def replace(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of what cannot be encoded, and where to go on: an error handler for codecs."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, start, end = error.object, error.start, error.end
    return "".join(_replace(text, place) for place in range(start, end)), end


def _replace(text: str, place: int) -> str:
    if text[place] == "…":
        return CUT if place and not text[place - 1].isspace() else "..."
    return REPLACEMENTS.get(text[place]) or _without_accent(text[place]) or "?"


def _without_accent(char: str) -> str:
    """Return the letter below an accent; empty for other characters."""
    return unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()


codecs.register_error(ERRORS, replace)


class SafeStream:
    """Standard output or standard error. What is written is cleaned; JSON keeps its meaning."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream
        """The stream for rich's consoles: they add colours, and clean the text themselves (console.py)."""

    def write(self, text: str) -> int:
        """Write text that may be of foreign origin."""
        stream = self.rich_proxied_file
        if text[:1] in ("{", "["):
            stream.write(escape(text, ascii_only=not is_unicode(stream)))
        else:
            stream.write(clean(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the stream has)
        return getattr(self.rich_proxied_file, name)
