"""The stream of all text to the terminal, which device output cannot control."""

from __future__ import annotations

from typing import Any, TextIO

from railbed.cli.run.encoding import is_unicode
from railbed.model.text import clean, escape


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
