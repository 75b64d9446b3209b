"""Command patterns, compiled into a tree that resolves abbreviations and reports errors at the right column.

A pattern consists of keywords, `<name:type>` arguments, `[optional]` groups and `(one|of)` groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

MAX_TOKENS = 256
_TOKEN = re.compile(r'"[^"]*"|\S+')
_ELEMENT = re.compile(r"<[^<>]+>|[\[\]()|]|[^\s\[\]()|<>]+")


class SyntaxFault(Exception):
    """A command that does not parse; `position` is the column that the caret points at."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.position = position

    def render(self, prompt_width: int) -> str:
        return " " * (prompt_width + self.position) + f"^\n% {self.problem} at '^' marker.\n"


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    start: int


def tokenize(line: str) -> list[Token]:
    return [Token(match.group().strip('"'), match.start()) for match in _TOKEN.finditer(line)]


@dataclass(frozen=True, slots=True)
class Taken:
    """A parsed argument: its value, how it is written in a configuration, and how many tokens it used."""

    value: object
    canonical: str
    used: int = 1


class Argument(Protocol):
    @property
    def help(self) -> str: ...

    def take(self, tokens: Sequence[Token]) -> Taken | None:
        """Read the argument from the front of `tokens`: None if it does not fit, SyntaxFault if it is out of range."""


C = TypeVar("C")


@dataclass
class Node(Generic[C]):
    keywords: dict[str, Node[C]] = field(default_factory=dict)
    arguments: list[tuple[str, Argument, Node[C]]] = field(default_factory=list)
    command: C | None = None

    def insert(self, elements: Sequence[str], command: C, argument: Callable[[str], Argument]) -> None:
        node = self
        for element in elements:
            node = (
                node._child(element, argument) if element.startswith("<") else node.keywords.setdefault(element, Node())
            )
        if node.command is not None:
            raise ValueError(f"two commands share the pattern {' '.join(elements)}")
        node.command = command

    def _child(self, element: str, argument: Callable[[str], Argument]) -> Node[C]:
        for name, _, child in self.arguments:
            if name == element:
                return child
        child = Node[C]()
        self.arguments.append((element, argument(element), child))
        return child

    def help(self, prefix: str) -> list[str]:
        """Return the entries that `?` lists here."""
        entries = sorted(word for word in self.keywords if word.startswith(prefix))
        if not prefix:
            entries += [argument.help for _, argument, _ in self.arguments]
            entries += ["<CR>"] if self.command is not None else []
        return entries


@dataclass(slots=True)
class Match(Generic[C]):
    """A parsed command: arguments by name, all words with abbreviations spelled out, and the keywords among them."""

    command: C
    values: dict[str, object] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)

    @property
    def negated(self) -> bool:
        return self.words[0] == "no"

    @property
    def line(self) -> str:
        return " ".join(self.words[1:] if self.negated else self.words)

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def names(self, name: str) -> list[str]:
        value = self.values.get(name, [])
        assert isinstance(value, list)
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        value = self.values.get(name, ())
        assert isinstance(value, tuple)
        return value


def expand(pattern: str) -> Iterator[list[str]]:
    """Yield every keyword sequence that a pattern with optional and alternative groups stands for."""
    elements = _ELEMENT.findall(pattern)
    sequences, rest = _alternatives(elements)
    if rest:
        raise ValueError(f"unbalanced pattern: {pattern}")
    yield from sequences


def _alternatives(elements: list[str]) -> tuple[list[list[str]], list[str]]:
    finished: list[list[str]] = []
    current: list[list[str]] = [[]]
    while elements and elements[0] not in ("]", ")"):
        element, *elements = elements
        if element == "|":
            finished += current
            current = [[]]
        elif element in ("[", "("):
            inner, elements = _alternatives(elements)
            elements = elements[1:]
            options = [*inner, []] if element == "[" else inner
            current = [[*head, *tail] for head in current for tail in options]
        else:
            current = [[*head, element] for head in current]
    return finished + current, elements


def parse(root: Node[C], line: str) -> Match[C]:
    """Match a command line against a tree, or raise SyntaxFault."""
    path = descend(root, tokenize(line))
    if path.node.command is None:
        raise SyntaxFault("Incomplete command", len(line.rstrip()))
    return Match(path.node.command, path.values, path.words, path.keywords)


@dataclass(slots=True)
class Path(Generic[C]):
    """How far tokens lead into a tree."""

    node: Node[C]
    values: dict[str, object] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)


def descend(root: Node[C], tokens: list[Token]) -> Path[C]:
    if len(tokens) > MAX_TOKENS:
        raise SyntaxFault("Invalid command", tokens[MAX_TOKENS].start)
    path, index = Path(root), 0
    while index < len(tokens):
        keyword = _keyword(path.node, tokens[index])
        if keyword is not None:
            path.node = path.node.keywords[keyword]
            path.words.append(keyword)
            path.keywords.append(keyword)
            index += 1
            continue
        name, taken, path.node = _argument(path.node, tokens[index:])
        path.values[name] = taken.value
        path.words.append(taken.canonical)
        index += taken.used
    return path


def _keyword(node: Node[C], token: Token) -> str | None:
    lowered = token.text.lower()
    if lowered in node.keywords:
        return lowered
    candidates = [word for word in node.keywords if lowered and word.startswith(lowered)]
    if len(candidates) > 1 and not _fits(node, token):
        raise SyntaxFault("Ambiguous command", token.start + len(token.text) - 1)
    return candidates[0] if len(candidates) == 1 else None


def _fits(node: Node[C], token: Token) -> bool:
    try:
        return any(argument.take([token]) is not None for _, argument, _ in node.arguments)
    except SyntaxFault:
        return True


def _argument(node: Node[C], tokens: Sequence[Token]) -> tuple[str, Taken, Node[C]]:
    fault: SyntaxFault | None = None
    for element, argument, child in node.arguments:
        try:
            taken = argument.take(tokens)
        except SyntaxFault as problem:
            fault = problem
            continue
        if taken is not None:
            return element.strip("<>").partition(":")[0], taken, child
    raise fault or SyntaxFault("Invalid command", tokens[0].start + _common_prefix(tokens[0].text, node.keywords))


def _common_prefix(text: str, words: Iterable[str]) -> int:
    """Return how many characters of `text` begin some keyword: the caret points at the first one that does not."""
    lowered = text.lower()
    longest = 0
    for word in words:
        length = next(
            (at for at, (a, b) in enumerate(zip(lowered, word, strict=False)) if a != b), min(len(lowered), len(word))
        )
        longest = max(longest, length)
    return min(longest, max(len(text) - 1, 0))
