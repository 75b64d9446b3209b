"""The lines of an output, without what a terminal adds, and those that its parser does not know.

Releases add lines, and people save more than the output: a prompt with the command, pager lines, banners, warnings.
What has a form of its own is left out here; any other line that a parser does not know it passes to `unknown`, and
goes on. Such lines end up in the facts (`TextFacts.not_understood`). Only an output that has nothing of what the parser
reads is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from railbed.errors import ParseError
from railbed.parsing.text import SECTION

LINE_CHARS = 160
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PAGER = re.compile(r"\s*<?-+ ?more ?-+>?(?: ?\(.*\))?\s*", re.IGNORECASE)
PAGER_BEFORE = re.compile(r"^<?-+ ?more ?-+>?(?: ?\(\d+%\))?(?=\S)", re.IGNORECASE)
RULER = re.compile(r"[-=+|*#~_\s]*+")
COMMAND = r"(?:\s*|\s?[a-z./].*)"
PROMPT = re.compile(
    r"\s*+(?:\[\w[\w.-]*+@[^\]]*+\][#$]|\w[\w.-]*+@[\w.-]++:[^#$>\s]*+\s?[#$>]|"
    rf"[A-Za-z][\w.-]*+(?:\([\w-]++\))?[#>]){COMMAND}"
)
"""`switch# show …`, `switch(config-if)#`, `root@node1:~# ethtool …`, `[root@node1 ~]# …`."""
BARE_PROMPT = re.compile(r"[$#] .*")
ECHO = re.compile(r"\s*show [a-z].*")
NOTICE = re.compile(r"\s*\W{0,4}\s?(?:warning|note|notice|last login)\b:?.*", re.IGNORECASE)
LOG = re.compile(r"(?:\S++ ++){0,8}?%[A-Z][A-Z0-9_]*+-(?:[A-Z0-9_]++-){0,3}?[0-7]-[A-Z0-9_]++:.*", re.DOTALL)
"""A message of the switch's log that was printed in between."""
NOISE = (RULER, PAGER, PROMPT, BARE_PROMPT, ECHO, NOTICE, LOG)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFacts:
    """Base of facts that are read from lines of text."""

    not_understood: tuple[str, ...] = field(default=(), compare=False)
    """Lines of the output that the parser does not know; no fact depends on them."""


@dataclass(slots=True)
class _Tally:
    """What has become of the lines of an output."""

    known: int = 0
    unknown: list[str] = field(default_factory=list)


class Lines:
    """The lines of an output, or of a section of it; its sections share the lines that are not understood."""

    def __init__(self, text: str, *, tally: _Tally | None = None) -> None:
        self.text = text
        self._tally = tally or _Tally()

    def __iter__(self) -> Iterator[str]:
        """Yield the lines that are not blank, with their indentation, except what surrounds an output."""
        for line in plain_lines(self.text):
            if not is_noise(line):
                self._tally.known += 1
                yield line

    @property
    def json(self) -> str:
        """The JSON of the output, without what surrounds it; empty if the output is text."""
        lines = self.text.split("\n")
        shown = [number for number, line in enumerate(lines) if line.strip() and not is_noise(line.rstrip("\r"))]
        body = "\n".join(lines[shown[0] : shown[-1] + 1]).strip() if shown else ""
        return body if body.startswith(("{", "[")) else ""

    def unknown(self, line: str) -> None:
        """Keep a line that the parser does not know."""
        self._tally.known -= 1
        self._tally.unknown.append(line.strip()[:LINE_CHARS])

    def unknown_part(self, text: str) -> None:
        """Keep what the parser does not know of a line that it knows."""
        self.unknown(text)
        self._tally.known += 1

    @contextmanager
    def reading(self, line: str) -> Iterator[None]:
        """Keep the line if reading it raises a ParseError."""
        try:
            yield
        except ParseError:
            self.unknown(line)

    @property
    def not_understood(self) -> tuple[str, ...]:
        """The lines that the parser does not know."""
        return tuple(self._tally.unknown)

    def within(self, text: str) -> Lines:
        """Return a part of the output; it shares the lines that are not understood."""
        return Lines(text, tally=self._tally)

    def first(self, form: re.Pattern[str]) -> re.Match[str] | None:
        """Return the first line that has a form; all other lines are kept."""
        first: re.Match[str] | None = None
        for line in self:
            match = None if first else form.fullmatch(line.strip())
            first = first or match
            if not match:
                self.unknown(line)
        return first

    def require(self, content: Any, expected: str) -> None:  # noqa: ANN401  (only whether there is any)
        """Refuse an output in which the parser first nothing that it reads."""
        if not content:
            self.refuse(expected)

    def refuse(self, expected: str) -> NoReturn:
        """Refuse the output, with the first line that is not understood."""
        first = self._tally.unknown[0] if self._tally.unknown else self.text.strip().partition("\n")[0]
        raise ParseError(expected, line=first)

    def require_known(self, expected: str) -> None:
        """Refuse an output that has lines, but none that the parser knows."""
        if self._tally.unknown and self._tally.known <= 0:
            raise ParseError(expected, line=self._tally.unknown[0])

    def sections(self) -> Iterator[tuple[str, Lines]]:
        """Yield (name, lines) for each `==> name <==` section; text without any header is one section without a name.

        So a parser accepts both the output of our command for all devices and a person's saved output for one device.
        """
        headers = list(SECTION.finditer(self.text))
        if not headers:
            yield "", self
            return
        for line in self.within(self.text[: headers[0].start()]):
            self.unknown(line)
        for header, following in zip(headers, [*headers[1:], None], strict=True):
            body = self.text[header.end() : following.start() if following else len(self.text)]
            yield header.group(1), self.within(body.strip("\n"))


def is_noise(line: str) -> bool:
    """Whether a line is one that a terminal, a person or a switch's log adds to an output."""
    return any(form.fullmatch(line) for form in NOISE)


def plain_lines(text: str) -> Iterator[str]:
    """Yield the lines as a terminal would show them: without escape sequences, pager, and what was overwritten."""
    if "\x1b" in text:
        text = ESCAPE.sub("", text)
    if "\r" in text and "\n" not in text:
        text = text.replace("\r", "\n")
    for line in text.split("\n"):
        shown = line.rstrip("\r")
        if "\x08" in shown or "\r" in shown:
            shown = _overwritten(shown)
        if "ore" in shown and not PAGER.fullmatch(shown):
            shown = PAGER_BEFORE.sub("", shown)
        if shown.strip():
            yield shown.rstrip()


def _overwritten(line: str) -> str:
    """Return what a line shows after backspaces and carriage returns."""
    cells: list[str] = []
    at = 0
    for character in line:
        if character == "\x08":
            at = max(0, at - 1)
        elif character == "\r":
            at = 0
        else:
            cells[at : at + 1] = [character]
            at += 1
    return "".join(cells)
