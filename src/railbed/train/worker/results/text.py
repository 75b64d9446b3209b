"""Tokens to text, piece by piece, while more tokens arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNFINISHED = "\ufffd"
Decode = Callable[[Sequence[int]], str]


class TextStream:
    """Turns tokens into text as they arrive.

    A token may be part of a character only, and its text may depend on the token before it (a space, say). So the
    text of a token is the difference between decoding with and without it, after the tokens of the piece before.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._before = 0
        self._written = 0

    def add(self, token: int) -> str:
        """Return the text that is complete with this token."""
        self._tokens.append(token)
        known, text = self._texts()
        if text.endswith(UNFINISHED) or len(text) <= len(known):
            return ""
        self._before, self._written = self._written, len(self._tokens)
        return text[len(known) :]

    def end(self) -> str:
        """Return what is left, complete or not."""
        known, text = self._texts()
        return text[len(known) :]

    def _texts(self) -> tuple[str, str]:
        """Return the text that was written since the piece before the last, and the same with what came since."""
        return self._decode(self._tokens[self._before : self._written]), self._decode(self._tokens[self._before :])
