"""Finds regular expressions whose time grows faster than their input.

Inputs are made from the expression itself: for every repeat in it a text that leads there, then one character or piece
that the repeat takes, many times, then something that lets the match fail. Time is processor time of this thread, the
best of several runs, and only growth counts, so a busy machine changes nothing.

There are a hundred thousand inputs, so most are measured once: only where that took long, or grew, is growth measured
with care.
"""

from __future__ import annotations

import ast
import gc
import importlib
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import railbed

CHARACTERS = "aAfxZ0179 \t\n\r\x00\x1b.:;,-_=+/\\|'\"`~@#$%^&*!?()[]{}<>é²\u2028"
SUFFIXES = ("", "\x01", "\n!", " x")
LENGTH = 1000
SUSPICIOUS_SECONDS = 0.0001
FACTOR = 8
SUPERLINEAR = 24
"""Eight times the input takes 8 times as long in linear time, and 64 times as long in quadratic time."""
BEYOND_DOUBT = 40
GLANCE = 4
GROWING = 4.6
"""What takes 24 times as long for 8 times 1,000 characters takes 5.1 times as long for 1,000 characters as for 250."""
HANGING_SECONDS = 0.3
"""Processor time that no expression needs for 1,000 characters; what is exponential would never end."""
METHODS = {"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
STRING_METHODS = {"split"}
SKIPPED = ("railbed.lab.vm.guest", "railbed.__main__")
IMPORTS_RE = re.compile(r"^\s*(?:import|from) re\b", re.MULTILINE)


@dataclass(slots=True)
class Expression:
    """A regular expression of the source, and how it is used."""

    pattern: re.Pattern[Any]
    where: str
    methods: set[str] = field(default_factory=set)

    def calls(self) -> Iterator[Callable[[Any], object]]:
        """Yield what to measure: all ways in which it is used, or all possible ways if that is not known."""
        methods = self.methods or {"search", "match", "fullmatch"}
        if methods & {"findall", "finditer", "sub", "subn", "split"}:
            yield lambda text: sum(1 for _ in self.pattern.finditer(text))
        for name in methods & {"search", "match", "fullmatch"}:
            yield getattr(self.pattern, name)


def all_expressions() -> list[Expression]:
    """Return every regular expression in railbed: those that modules hold, and those that are given in calls."""
    expressions: dict[tuple[Any, int], Expression] = {}
    for module, tree in _modules():
        uses = _uses(tree)
        # What is held in a table is used through a variable.
        others = set().union(*(methods for name, methods in uses.items() if name not in vars(module))) - STRING_METHODS
        for name, pattern in _held(module):
            known = expressions.setdefault(
                (pattern.pattern, pattern.flags), Expression(pattern, f"{module.__name__}.{name}")
            )
            known.methods |= uses.get(name) or others
        for method, pattern, line in _inline(tree):
            known = expressions.setdefault(
                (pattern.pattern, pattern.flags), Expression(pattern, f"{module.__name__}:{line}")
            )
            known.methods.add(method)
    return list(expressions.values())


def unnamed_patterns() -> list[str]:
    """Return the calls of `re` whose expression is neither a text in the call nor a name's: nobody could collect it."""
    return [
        f"{module.__name__}:{call.lineno}"
        for module, tree in _modules()
        for call in _re_calls(tree)
        if call.func.attr in METHODS and _literal(call.args[0]) is None  # type: ignore[attr-defined]
    ]


@cache
def _modules() -> list[tuple[ModuleType, ast.Module]]:
    """Return the modules that can compile an expression, with their syntax: loading all others takes seconds."""
    modules = []
    for path in sorted(Path(railbed.__path__[0]).rglob("*.py")):
        parts = path.relative_to(Path(railbed.__path__[0]).parent).with_suffix("").parts
        name, source = ".".join(parts).removesuffix(".__init__"), path.read_text()
        if IMPORTS_RE.search(source) and not name.startswith(SKIPPED) and not name.endswith("__main__"):
            modules.append((importlib.import_module(name), ast.parse(source)))
    return modules


def _held(module: ModuleType) -> Iterator[tuple[str, re.Pattern[Any]]]:
    for name, value in vars(module).items():
        yield from ((name, pattern) for pattern in _patterns(value, depth=3))


def _patterns(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _patterns(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from _patterns(item, depth - 1)


def _uses(tree: ast.AST) -> dict[str, set[str]]:
    uses: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
            uses.setdefault(node.value.id, set()).add(node.attr)
    return uses


def _re_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "re":
                yield node


def _inline(tree: ast.AST) -> Iterator[tuple[str, re.Pattern[str], int]]:
    for call in _re_calls(tree):
        method = call.func.attr  # type: ignore[attr-defined]
        text = _literal(call.args[0]) if call.args and method in METHODS else None
        if text is not None:
            flags = " ".join(ast.unparse(part) for part in (*call.args[2:], *(k.value for k in call.keywords)))
            number = sum(flag for name, flag in re.RegexFlag.__members__.items() if f"re.{name}" in flags.split())
            yield method, re.compile(text, number), call.lineno


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (prefix, piece to repeat, suffix) that may make the expression slow."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    prefixes, pieces = {""}, set(_alphabet(tree))
    for prefix, body in _repeats(tree, ""):
        prefixes.add(prefix)
        pieces.add(_sample(body))
    sample = _sample(tree)
    pieces |= {sample, sample[:-1], f"{sample}\n", f"{sample[:-1]}\n", *prefixes}
    pieces |= {f"{message}{other}" for message in sample[:6] for other in "\n :x"}
    for prefix in prefixes:
        for piece in pieces:
            if piece:
                yield from ((prefix, piece, suffix) for suffix in SUFFIXES)


def _alphabet(tree: Any) -> Iterator[str]:
    """Yield one character of each kind that an expression distinguishes."""
    classes = list(_classes(tree))
    kinds: set[tuple[bool, ...]] = set()
    for char in CHARACTERS:
        kind = tuple(_takes(items, char) for items in classes)
        if kind not in kinds:
            kinds.add(kind)
            yield char


def _classes(tree: Any) -> Iterator[Any]:
    yield [(codes.LITERAL, ord("\n"))]
    for code, value in tree:
        if code is codes.IN:
            yield value
        elif code in (codes.LITERAL, codes.NOT_LITERAL):
            yield [(codes.LITERAL, value)]
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from _classes(value[2])
        elif code is codes.SUBPATTERN:
            yield from _classes(value[3])
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from _classes(branch)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _classes(value[1])
        elif code is codes.ATOMIC_GROUP:
            yield from _classes(value)


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, Any]]:
    """Yield each repeat with a text that leads to it."""
    for code, value in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield before, value[2]
            yield from _repeats(value[2], before)
        elif code is codes.SUBPATTERN:
            yield from _repeats(value[3], before)
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from _repeats(branch, before)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _repeats(value[1], before)
        elif code is codes.ATOMIC_GROUP:
            yield from _repeats(value, before)
        before += _sample([(code, value)])


def _sample(tree: Any) -> str:
    """Return a text that a part of an expression takes."""
    text = ""
    for code, value in tree:
        if code is codes.LITERAL:
            text += chr(value)
        elif code is codes.NOT_LITERAL:
            text += "x" if value != ord("x") else "y"
        elif code is codes.ANY:
            text += "x"
        elif code is codes.IN:
            text += next((char for char in CHARACTERS if _takes(value, char)), "")
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            text += _sample(value[2]) * max(1, min(value[0], 20))
        elif code is codes.SUBPATTERN:
            text += _sample(value[3])
        elif code is codes.BRANCH:
            text += _sample(value[1][0])
        elif code is codes.ATOMIC_GROUP:
            text += _sample(value)
    return text


def _takes(items: Any, char: str) -> bool:
    negated = bool(items) and items[0][0] is codes.NEGATE
    matches = any(_item_takes(code, value, char) for code, value in items)
    return matches != negated


def _item_takes(code: Any, value: Any, char: str) -> bool:
    if code is codes.LITERAL:
        return bool(ord(char) == value)
    if code is codes.RANGE:
        return bool(value[0] <= ord(char) <= value[1])
    if code is codes.CATEGORY:
        kind = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[str(value).rpartition("_")[2]]
        return bool(re.match(kind, char)) != ("NOT" in str(value))
    return False


ROUNDS = 4
"""What grows too fast does so every time; a machine that was slow during one of the calls does not count."""


class Hang(BaseException):
    """A call took longer than it ever should; not an exception that a reader may catch."""


def superlinear(call: Callable[[Any], object], make: Callable[[int], Any], much: float = HANGING_SECONDS) -> str:
    """Return how the time of a call grew if it grew faster than its input, or an empty text.

    `much` is processor time that it never needs for an input of normal length: what is exponential would never end.
    """
    try:
        with at_most(much):
            if is_settled_at_a_glance(call, make):
                return ""
    except Hang:
        return f"{much} s were not enough for {LENGTH} repeats"
    growth = 0.0
    for earlier_rounds in range(ROUNDS):
        short = max(best_of(call, make(LENGTH), 5), 1e-6)
        growth = best_of(call, make(LENGTH * FACTOR), 3, enough=short * SUPERLINEAR) / short
        if growth <= SUPERLINEAR:
            return ""
        if growth > BEYOND_DOUBT and earlier_rounds:  # a virtual machine that stands still for a moment does that, too
            break
    return f"{FACTOR} times the input took {growth:.0f} times as long"


def is_settled_at_a_glance(call: Callable[[Any], object], make: Callable[[int], Any]) -> bool:
    """Return whether a call is so fast, or grows so little, that measuring it with care would show nothing else."""
    long = best_of(call, make(LENGTH), 1)
    if long < SUSPICIOUS_SECONDS:
        return True
    short = best_of(call, make(LENGTH // GLANCE), 3)
    return long < short * GROWING or best_of(call, make(LENGTH), 1) < short * GROWING


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `Hang` after so much processor time: Python looks for signals also while it matches an expression."""

    def interrupt(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def best_of(call: Callable[[Any], object], argument: object, times: int, enough: float = 0.0) -> float:
    """Return the least processor time of several calls; the first that is below `enough` will do.

    Without the garbage collector: it would go through everything that other tests loaded into this process.
    """
    best = float("inf")
    gc.disable()
    try:
        for _ in range(times):
            begun = time.thread_time()
            call(argument)
            best = min(best, time.thread_time() - begun)
            if best < enough:
                break
    finally:
        gc.enable()
    return best


def slow_inputs(expression: Expression) -> list[str]:
    """Return an input for which an expression takes more than linear time, and how long, if there is any."""
    as_bytes = isinstance(expression.pattern.pattern, bytes)
    inputs = list(attacks(expression.pattern))
    for call in expression.calls():
        for prefix, piece, suffix in inputs:

            def make(count: int, parts: tuple[str, str, str] = (prefix, piece, suffix)) -> str | bytes:
                before, repeated, after = parts
                text = before + repeated * max(1, count // len(repeated)) + after
                return text.encode() if as_bytes else text

            if grew := superlinear(call, make):
                return [f"{prefix[:40]!r} + {piece[:40]!r} × n + {suffix!r}: {grew}"]
    return []


def all_of(expressions: Iterable[Expression]) -> dict[str, list[str]]:
    """Return the slow inputs of every expression that has any."""
    return {expression.where: slow for expression in expressions if (slow := slow_inputs(expression))}
