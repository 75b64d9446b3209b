"""A mistake in a file: where it is, and one sentence about it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from railbed.errors import UserError
from railbed.model.text import plural
from railbed.yamlfile.kind import FileKind

Key = str | int
KeyPath = tuple[Key, ...]

SHOWN = 50
"""A file with more mistakes than this is some other kind of file; the rest is counted."""

SECRETS = {"password", "passphrase"}
SECRET_SOURCES = {"env", "keyring"}
PASSWORD_IN_TEXT = re.compile(r"(pass(?:word|phrase|wd)?[^A-Za-z0-9_]).*|(:)[^:@/]+(?=@)", re.IGNORECASE | re.DOTALL)
"""Text after the word password, and between the : and the @ of `user:password@host`."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake, with its line and key; line 0 and an empty path mean the file as a whole."""

    sentence: str
    line: int = 0
    path: KeyPath = ()

    def message(self, name: str) -> str:
        """Return the line that the user reads."""
        position = f"{name}:{self.line}" if self.line else name
        return ": ".join(part for part in (position, path_text(self.path), self.sentence) if part)


def refusal(kind: FileKind, name: str, mistakes: Iterable[Mistake], *, hint: str = "") -> UserError:
    """Return the error that lists all mistakes, in the order of the file."""
    lines = [mistake.message(name) for mistake in sorted(mistakes, key=lambda mistake: mistake.line)]
    lines = list(dict.fromkeys(lines))
    more = [f"{name}: and {plural(len(lines) - SHOWN, 'more mistake')}"] if len(lines) > SHOWN else []
    return kind.error("\n".join(lines[:SHOWN] + more), hint=hint)


def path_text(path: KeyPath) -> str:
    """Return a path as `nodes.n1.ports[0].netdev`, without text that may be a secret."""
    text = ""
    for before, part in zip(("", *path), path, strict=False):
        if before in SECRETS and part not in SECRET_SOURCES:
            break
        text += f"[{part}]" if isinstance(part, int) else f".{key_text(part)}" if text else key_text(part)
    return text


def key_text(key: str) -> str:
    """Return a key in a form that fits into a sentence on one line."""
    return key if key and key.isprintable() and len(key) <= 64 and not PASSWORD_IN_TEXT.search(key) else quote_text(key)


def quote_text(text: str) -> str:
    """Return a text of the file in quotes, on one line, not too long, and without a password."""
    text = shorten(PASSWORD_IN_TEXT.sub(r"\1\2…", text), 40)
    return f"'{text}'" if text.isprintable() else ascii(text)


def shorten(text: str, length: int) -> str:
    """Return the text, cut with an ellipsis if it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


def did_you_mean(word: str, choices: Sequence[str], habits: Mapping[str, str] | None = None) -> str:
    """Return `; did you mean X?` if one of the choices is similar, otherwise an empty text."""
    best = nearest(word, choices, habits)
    return f"; did you mean {key_text(best)}?" if best else ""


def nearest(word: str, choices: Sequence[str], habits: Mapping[str, str] | None = None) -> str:
    """Return the choice that was probably meant, or an empty text."""
    habit = (habits or {}).get(word.lower(), "")
    return habit if habit in choices else _closest(word[:64].lower(), tuple(choices))


@lru_cache(maxsize=1024)  # a file may repeat a mistake a thousand times; look it up once
def _closest(word: str, choices: tuple[str, ...]) -> str:
    folded = {choice.lower(): choice for choice in choices}
    best = difflib.get_close_matches(word, list(folded), n=1, cutoff=0.6)
    return folded[best[0]] if best else ""
