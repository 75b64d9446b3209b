"""The difference between two configurations, as the lines that lead from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from switchlab.nexus.model.render import Block, compress

# Nothing may be removed while something else refers to it, so removals run from the users to what they use.
# A feature goes last: its commands exist only as long as it is enabled.
_REMOVAL_ORDER = ("interface ", "system qos", "policy-map ", "class-map ", "", "feature ")


def patch(current: Sequence[Block], target: Sequence[Block]) -> list[str]:
    """Return the lines that turn `current` into `target`: removals, then additions."""
    old_vlans, old = _split_vlans(current)
    new_vlans, new = _split_vlans(target)
    removals: list[str] = []
    for block in sorted(old.values(), key=_removal_rank):
        if not _belongs_to_vlan(block, old_vlans - new_vlans):
            emptied = Block(block.line) if _belongs_to_vlan(block, new_vlans) else None
            removals += _remove(block, new.get(block.line, emptied))
    removals += [f"no vlan {compress(old_vlans - new_vlans)}"] if old_vlans - new_vlans else []
    additions = [f"vlan {compress(new_vlans - old_vlans)}"] if new_vlans - old_vlans else []
    additions += [line for block in new.values() for line in _add(block, old.get(block.line), 0)]
    return removals + additions


def _split_vlans(blocks: Sequence[Block]) -> tuple[set[int], dict[str, Block]]:
    """Return the VLANs that a configuration lists on one line, and its other blocks by their first line."""
    vlans: set[int] = set()
    others: dict[str, Block] = {}
    for block in blocks:
        if block.line.startswith("vlan ") and not block.children:
            for part in block.line.removeprefix("vlan ").split(","):
                first, _, last = part.partition("-")
                vlans.update(range(int(first), int(last or first) + 1))
        else:
            others[block.line] = block
    return vlans, others


def _belongs_to_vlan(block: Block, vlans: set[int]) -> bool:
    return block.line in {f"vlan {number}" for number in vlans}


def _removal_rank(block: Block) -> int:
    starts = [start for start in _REMOVAL_ORDER if start and block.line.startswith(start)]
    return _REMOVAL_ORDER.index(starts[0] if starts else "")


def _remove(block: Block, target: Block | None) -> list[str]:
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


def _add(block: Block, before: Block | None, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if before is None:
        yield indent + block.line
        for child in block.children:
            yield from _add(child, None, depth + 1)
        return
    known = {child.line: child for child in before.children}
    lines = [line for child in block.children for line in _add(child, known.get(child.line), depth + 1)]
    if lines:
        yield indent + block.line
        yield from lines
