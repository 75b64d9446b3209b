"""Damaged inputs made from good ones, reproducible from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

PIECES = (
    *(
        "",
        "\n",
        "\r\n",
        "\r",
        "\t",
        " ",
        "  ",
        ":",
        ",",
        "=",
        "-",
        "/",
        "==> a <==\n",
        "==> ",
        " <==",
        "---\n",
        "...\n",
    ),
    *("\0", "\x1b[31m", "\x9b", "\u202e", "\ufeff", "\ufffd", "²", "٣", "é", "𝟘", "\U0010ffff", "\u2028", "\ud7ff"),
    *("null", "true", "NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "-0", "1e-400", "9" * 400, "0x10", "1_0"),
    *("{}", "[]", "{", "[", "}", "]", '"', "'", "\\", '\\"', "\\u0000", "\\ud800", "{}{}", "[[[]]]", '{"a":'),
    *("%YAML 1.5\n---\n", "%YAML 2.0\n", "%TAG ! x\n---\n", "&a ", "*a", "!!python/object:x ", "<<: ", "? ", "- "),
    *("~", "~nobody/x", "../..", "/dev/zero", "$(id)", "%s%n", "{0}", "N/A", "[N/A]", "inf", "nan"),
)


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, 10**30, 10**400, 0.5, 1e308, float("inf"), float("-inf"), float("nan")),
    *("", "x", "\0", "\x1b[2J", "9" * 5000, "é" * 300, "\ud7ff\U0010ffff", [], {}, [[]], [None], {"": None}, {"a": {}}),
    *(_nested(40), {"a": _nested(300)}, [1, "a", None, {}], "1e999", "-5", "../../etc/passwd", "x" * 20_000),
)
REPEATS = (2, 3, 10, 60, 400, 3000)
LONGEST = 40_000
"""What a mutation makes longer is cut here: a slow reader shows at this length, and the campaign stays quick."""


def mutated(seeds: Sequence[str], number: random.Random) -> str:
    """Return a damaged input: a few mutations of one of the seeds, or rubbish."""
    if not seeds or number.random() < 0.03:
        return _rubbish(number)
    text = number.choice(seeds)
    for _ in range(number.choice((1, 1, 1, 2, 2, 3, 5))):
        text = number.choice(MUTATIONS)(text, seeds, number)[:LONGEST]
    return text


def _rubbish(number: random.Random) -> str:
    pieces = number.choices(PIECES, k=number.randint(0, 30))
    letters = [
        chr(number.choice((number.randint(0, 127), number.randint(0, 0xD7FF)))) for _ in range(number.randint(0, 60))
    ]
    mixed = [*pieces, *letters]
    number.shuffle(mixed)
    return "".join(mixed)


def _span(text: str, number: random.Random, longest: int = 60) -> tuple[int, int]:
    start = number.randint(0, len(text))
    return start, min(len(text), start + number.randint(0, longest))


def _cut(text: str, _: Sequence[str], number: random.Random) -> str:
    at = number.randint(0, len(text))
    return text[:at] if number.random() < 0.7 else text[at:]


def _splice(text: str, _: Sequence[str], number: random.Random) -> str:
    start, end = _span(text, number)
    return text[:start] + number.choice(PIECES) + text[end if number.random() < 0.5 else start :]


def _splice_other(text: str, seeds: Sequence[str], number: random.Random) -> str:
    other = number.choice(seeds)
    from_, to = _span(other, number, 400)
    start, end = _span(text, number)
    return text[:start] + other[from_:to] + text[end:]


def _repeat(text: str, _: Sequence[str], number: random.Random) -> str:
    start, end = _span(text, number, number.choice((1, 4, 40, 200)))
    piece = text[start:end] or number.choice(PIECES)
    return text[:start] + (piece * number.choice(REPEATS))[:LONGEST] + text[end:]


def _nest(text: str, _: Sequence[str], number: random.Random) -> str:
    at = number.randint(0, len(text))
    opening = number.choice(("[", "{", '{"a":', "(", "- ", "? ", '["', "a: "))
    return text[:at] + opening * number.choice((3, 60, 1100, 3000)) + text[at:]


def _lines(text: str, _: Sequence[str], number: random.Random) -> str:
    lines = text.split("\n")
    at, other = number.randrange(len(lines)), number.randrange(len(lines))
    match number.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines[at], lines[other] = lines[other], lines[at]
        case 2:
            lines.insert(at, lines[other])
        case 3:
            lines[at] = " " * number.choice((0, 1, 4, 70)) + lines[at].lstrip()
        case _:
            lines[at] = lines[at].strip()
            return (" " if number.random() < 0.5 else "").join(lines)
    return "\n".join(lines)


def _word(text: str, _: Sequence[str], number: random.Random) -> str:
    """Replace one word, which is usually a complete value."""
    words = text.split(" ")
    words[number.randrange(len(words))] = number.choice(PIECES)
    return " ".join(words)


def _digits(text: str, _: Sequence[str], number: random.Random) -> str:
    places = [at for at, char in enumerate(text[:LONGEST]) if char.isdigit()]
    if not places:
        return text
    at = number.choice(places)
    return text[:at] + number.choice(("-", "9" * 30, "9" * 400, "1e999", "٣", "", "0x", "nan", ".")) + text[at + 1 :]


def _json(text: str, seeds: Sequence[str], number: random.Random) -> str:
    """Put a value of another kind into JSON, at any level; if the text is not JSON, into one of its lines."""
    try:
        return json.dumps(_other_value(json.loads(text), number), ensure_ascii=number.random() < 0.5)
    except (ValueError, RecursionError):
        pass
    lines = text.split("\n")
    for at in number.sample(range(len(lines)), min(len(lines), 5)):
        if lines[at].lstrip()[:1] in ("{", "["):
            try:
                lines[at] = json.dumps(_other_value(json.loads(lines[at]), number))
            except (ValueError, RecursionError):
                continue
            return "\n".join(lines)
    return _word(text, seeds, number)


def _other_value(value: Any, number: random.Random) -> Any:
    """Return the value with one thing in it replaced, removed or renamed."""
    if isinstance(value, dict) and value and number.random() < 0.9:
        key = number.choice(list(value))
        changed = dict(value)
        match number.randrange(8):
            case 0:
                del changed[key]
            case 1:
                changed[number.choice(("", "x", "__metadata__", key + " "))] = changed.pop(key)
            case _:
                changed[key] = _other_value(value[key], number)
        return changed
    if isinstance(value, list) and value and number.random() < 0.9:
        at = number.randrange(len(value))
        return [*value[:at], _other_value(value[at], number), *value[at + 1 :]]
    return number.choice(VALUES)


MUTATIONS = (
    _cut,
    _splice,
    _splice,
    _splice_other,
    _repeat,
    _nest,
    _lines,
    _word,
    _digits,
    _digits,
    _json,
    _json,
    _json,
)
