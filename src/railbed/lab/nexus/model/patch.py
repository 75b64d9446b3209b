"""The difference between two configurations, as the lines that lead from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.lab.nexus.model.render import Block

# Nothing may be removed while something else refers to it, so removals run from the users to what they use.
_REMOVAL_ORDER = ("interface ", "system qos", "policy-map ", "class-map ")


def patch(current: Sequence[Block], target: Sequence[Block]) -> list[str]:
    """Return the lines that turn `current` into `target`: what goes, then what comes."""
    old = {block.line: block for block in current}
    new = {block.line: block for block in target}
    removals: list[str] = []
    for block in sorted(current, key=_removal_rank):
        removals += _removed(block, new.get(block.line))
    additions = [line for block in target for line in _added(block, old.get(block.line), 0)]
    return removals + additions


def _removal_rank(block: Block) -> int:
    return next(
        (rank for rank, start in enumerate(_REMOVAL_ORDER) if block.line.startswith(start)), len(_REMOVAL_ORDER)
    )


def _removed(block: Block, target: Block | None) -> list[str]:
    if target is None:
        if block.line == "system qos":
            return [block.line, *(f"  no {child.line}" for child in block.children)]
        return [_negate(block.line)]
    gone = _missing(block, target, 1)
    # An interface has commands with the same name as global ones that may follow: leave its mode.
    leave = ["  exit"] if block.line.startswith("interface ") else []
    return [block.line, *gone, *leave] if gone else []


def _missing(block: Block, target: Block, depth: int) -> list[str]:
    remaining = {child.line: child for child in target.children}
    lines: list[str] = []
    for child in block.children:
        if child.line not in remaining:
            lines.append("  " * depth + _negate(child.line))
        elif nested := _missing(child, remaining[child.line], depth + 1):
            lines += ["  " * depth + child.line, *nested]
    return lines


def _negate(line: str) -> str:
    return line.removeprefix("no ") if line.startswith("no ") else f"no {line}"


def _added(block: Block, before: Block | None, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if before is None:
        yield indent + block.line
        for child in block.children:
            yield from _added(child, None, depth + 1)
        return
    known = {child.line: child for child in before.children}
    lines = [line for child in block.children for line in _added(child, known.get(child.line), depth + 1)]
    if lines:
        yield indent + block.line
        yield from lines
