"""What stands behind a `|`: grep, sed, head, tail, wc, sort, uniq, cut, tr and awk, with their common options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from switchlab.esxi.commands.outcome import CommandOutput
from switchlab.esxi.shell.patterns import LONGEST_LINE, BadPattern, compile_pattern

LARGEST_COUNT = 1_000_000
SUBSTITUTE = re.compile(r"s(.)((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)\1([gp]*)", re.DOTALL)
PRINT = re.compile(r"\{\s*print((?:\s*,?\s*(?:\$\d{1,3}|\$NF|\"[^\"]*\"))*)\s*;?\s*\}")
ITEM = re.compile(r"\$(\d{1,3}|NF)|\"([^\"]*)\"|(,)")


class Misused(Exception):
    """A filter was called in a way that it does not support."""


def run_filter(name: str, arguments: Sequence[str], text: str) -> CommandOutput:
    """Run one filter over its input."""
    try:
        return FILTERS[name](list(arguments), text)
    except (Misused, BadPattern) as error:
        return CommandOutput("", 2, f"{name}: {error}\n")


def _lines(text: str) -> list[str]:
    return [line[:LONGEST_LINE] for line in text.split("\n")[: -1 if text.endswith("\n") else None]] if text else []


def _join(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _split_flags(arguments: list[str], allowed: str, valued: str = "") -> tuple[dict[str, str], list[str]]:
    """Return the flags with their values, and the other words."""
    flags: dict[str, str] = {}
    others: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            others.append(word)
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in valued:
                if not letters and not rest:
                    raise Misused(f"option requires an argument -- '{letter}'")
                flags[letter], letters = letters or rest.pop(0), ""
            elif letter in allowed:
                flags[letter] = ""
            else:
                raise Misused(f"invalid option -- '{letter}'")
    return flags, others


def _grep(arguments: list[str], text: str) -> CommandOutput:
    flags, others = _split_flags(arguments, "ivEFcnqox", "eAB")
    pattern = flags["e"] if "e" in flags else others.pop(0) if others else None
    if pattern is None:
        raise Misused("usage: grep [-ivEFcnqox] PATTERN")
    pattern = re.sub(r"([\\.*^$\[\]])", r"\\\1", pattern) if "F" in flags else pattern
    compiled = compile_pattern(pattern, extended="E" in flags, ignore_case="i" in flags)
    lines = _lines(text)
    search = compiled.fullmatch if "x" in flags else compiled.search
    hits = [number for number, line in enumerate(lines) if bool(search(line)) != ("v" in flags)]
    status = 0 if hits else 1
    if "q" in flags:
        return CommandOutput("", status)
    if "c" in flags:
        return CommandOutput(f"{len(hits)}\n", status)
    if "o" in flags:
        return CommandOutput(
            _join(match[0] for number in hits for match in compiled.finditer(lines[number]) if match[0]), status
        )
    around = {
        near
        for number in hits
        for near in range(number - _count(flags.get("B", "0")), number + _count(flags.get("A", "0")) + 1)
    }
    shown = [number for number in range(len(lines)) if number in around]
    return CommandOutput(
        _join(f"{number + 1}:{lines[number]}" if "n" in flags else lines[number] for number in shown), status
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise Misused(f"invalid number '{text}'")
    return min(int(text), LARGEST_COUNT)


def _edit(arguments: list[str], text: str) -> CommandOutput:
    flags, others = _split_flags(arguments, "nEr", "e")
    script = flags["e"] if "e" in flags else others.pop(0) if others else ""
    extended = "E" in flags or "r" in flags
    lines = _lines(text)
    if match := SUBSTITUTE.fullmatch(script):
        compiled = compile_pattern(match[2], extended=extended)
        replacement = re.sub(r"\\([^0-9])", r"\1", match[3]).replace("\\", "").replace("&", "\0")
        shown = []
        for line in lines:
            new, times = compiled.subn(
                lambda hit: replacement.replace("\0", hit[0]), line, count=0 if "g" in match[4] else 1
            )
            shown += [new] * (("n" not in flags) + ("p" in match[4] and times > 0))
        return CommandOutput(_join(shown))
    address, action = script[:-1], script[-1:]
    if action not in ("p", "d"):
        raise Misused(f"unsupported command {script}")
    chosen = _lines_at(address, lines, extended=extended)
    if action == "d":
        return CommandOutput(_join(line for number, line in enumerate(lines, 1) if number not in chosen))
    repeats = 0 if "n" in flags else 1
    return CommandOutput(
        _join(line for number, line in enumerate(lines, 1) for _ in range(repeats + (number in chosen)))
    )


def _lines_at(address: str, lines: Sequence[str], *, extended: bool) -> set[int]:
    """Return the numbers of the lines that `3`, `2,5`, `$`, `/re/` or nothing selects."""
    if not address:
        return set(range(1, len(lines) + 1))
    if address.startswith("/") and address.endswith("/") and len(address) > 1:
        compiled = compile_pattern(address[1:-1], extended=extended)
        return {number for number, line in enumerate(lines, 1) if compiled.search(line)}
    first, comma, last = (part.strip() for part in address.partition(","))
    ends = [len(lines) if end == "$" else _count(end) for end in (first, last if comma else first)]
    return set(range(ends[0], min(ends[1], len(lines)) + 1))


def _head(arguments: list[str], text: str) -> CommandOutput:
    return CommandOutput(_join(_lines(text)[: _line_count(arguments)]))


def _tail(arguments: list[str], text: str) -> CommandOutput:
    count = _line_count(arguments)
    return CommandOutput(_join(_lines(text)[-count:] if count else []))


def _line_count(arguments: list[str]) -> int:
    """Return how many lines `-n 3`, `-n3` or `-3` wants; ten without any of them."""
    words = [f"-n{word[1:]}" if re.fullmatch(r"-[0-9]+", word) else word for word in arguments]
    flags, _ = _split_flags(words, "", "n")
    return _count(flags.get("n", "10"))


def _wc(arguments: list[str], text: str) -> CommandOutput:
    flags, _ = _split_flags(arguments, "lwc")
    numbers = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode())}
    return CommandOutput(" ".join(str(number) for flag, number in numbers.items() if not flags or flag in flags) + "\n")


def _sort(arguments: list[str], text: str) -> CommandOutput:
    flags, _ = _split_flags(arguments, "rnu")

    def key(line: str) -> tuple[int, str]:
        number = re.match(r"\s*(-?\d{1,18})", line, re.ASCII) if "n" in flags else None
        return int(number[1]) if number else 0, line

    lines = sorted(_lines(text), key=key, reverse="r" in flags)
    return CommandOutput(_join(dict.fromkeys(lines) if "u" in flags else lines))


def _uniq(arguments: list[str], text: str) -> CommandOutput:
    _split_flags(arguments, "")
    lines = _lines(text)
    return CommandOutput(_join(line for number, line in enumerate(lines) if not number or lines[number - 1] != line))


def _cut(arguments: list[str], text: str) -> CommandOutput:
    flags, _ = _split_flags(arguments, "s", "df")
    wanted = [_count(number) for number in flags.get("f", "").split(",")]
    delimiter = flags.get("d", "\t")
    if len(delimiter) != 1 or 0 in wanted:
        raise Misused("usage: cut -d CHARACTER -f LIST")
    rows = [line.split(delimiter) for line in _lines(text)]
    return CommandOutput(
        _join(
            delimiter.join(row[number - 1] for number in wanted if number <= len(row)) if len(row) > 1 else row[0]
            for row in rows
        )
    )


def _tr(arguments: list[str], text: str) -> CommandOutput:
    flags, others = _split_flags(arguments, "ds")
    sets = [word.replace("\\n", "\n").replace("\\t", "\t") for word in others]
    if not sets:
        raise Misused("usage: tr [-d] SET1 [SET2]")
    if "d" in flags:
        return CommandOutput("".join(character for character in text if character not in sets[0]))
    if len(sets) < 2 or not sets[1]:
        raise Misused("usage: tr [-d] SET1 [SET2]")
    target = sets[1].ljust(len(sets[0]), sets[1][-1])
    return CommandOutput(text.translate(dict(zip(map(ord, sets[0]), target, strict=False))))


def _awk(arguments: list[str], text: str) -> CommandOutput:
    """Run `[/re/]{print $1, $2}`, with `-F`."""
    flags, others = _split_flags(arguments, "", "F")
    program = others[0].strip() if others else ""
    pattern = None
    if program.startswith("/") and "/" in program[1:]:
        source, _, program = program[1:].partition("/")
        pattern = compile_pattern(source, extended=True)
    match = PRINT.fullmatch(program.strip())
    if match is None:
        raise Misused(f"unsupported program {program[:80]}")
    separator = flags.get("F") or None
    lines = [line for line in _lines(text) if pattern is None or pattern.search(line)]
    return CommandOutput(_join(_print_items(match[1], line, line.split(separator)) for line in lines))


def _print_items(items: str, line: str, fields: list[str]) -> str:
    out = ""
    for match in ITEM.finditer(items):
        number, literal, comma = match.groups()
        if comma:
            out += " "
        elif number is None:
            out += literal
        else:
            index = len(fields) if number == "NF" else int(number)
            out += line if index == 0 else fields[index - 1] if index <= len(fields) else ""
    return out or line


FILTERS: dict[str, Callable[[list[str], str], CommandOutput]] = {
    "grep": _grep,
    "egrep": lambda arguments, text: _grep(["-E", *arguments], text),
    "sed": _edit,
    "head": _head,
    "tail": _tail,
    "wc": _wc,
    "sort": _sort,
    "uniq": _uniq,
    "cut": _cut,
    "tr": _tr,
    "awk": _awk,
}
