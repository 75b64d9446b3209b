"""Who sends to whom, and which pairs run at the same time, as pure lists of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Literal

Pattern = Literal["pair", "matrix", "rounds", "ring", "incast", "all"]
Direction = Literal["one", "each", "both"]
Pair = tuple[str, str]
"""The sending node, and the receiving node."""
PATTERNS: dict[Pattern, str] = {
    "pair": "the first two nodes",
    "matrix": "every pair, one at a time",
    "rounds": "every pair; pairs without a common node run at the same time",
    "ring": "each node to the next, all at the same time",
    "incast": "all other nodes to one node at the same time, for each node",
    "all": "each node to every other, all at the same time",
}


def rounds_of(pattern: Pattern, nodes: Sequence[str], direction: Direction) -> list[list[Pair]]:
    """Return the trials of a pattern, each a list of pairs that run together; fewer than two nodes have none."""
    forward = _forward(pattern, nodes) if len(nodes) > 1 else []
    if direction != "each":
        return forward
    backward = [[(target, source) for source, target in pairs] for pairs in forward]
    # A ring of two nodes, and all-to-all of any number, already contain their own reverse.
    return [trial for pairs in zip(forward, backward, strict=True) for trial in _distinct(*pairs)]


def _forward(pattern: Pattern, nodes: Sequence[str]) -> list[list[Pair]]:
    match pattern:
        case "pair":
            return [[(nodes[0], nodes[1])]]
        case "matrix":
            return [[pair] for pair in combinations(nodes, 2)]
        case "rounds":
            return tournament(nodes)
        case "ring":
            return [[(node, nodes[(index + 1) % len(nodes)]) for index, node in enumerate(nodes)]]
        case "incast":
            return [[(source, target) for source in nodes if source != target] for target in nodes]
        case "all":
            return [list(permutations(nodes, 2))]


def _distinct(forward: list[Pair], backward: list[Pair]) -> list[list[Pair]]:
    return [forward] if set(forward) == set(backward) else [forward, backward]


def tournament(nodes: Sequence[str]) -> list[list[Pair]]:
    """Return rounds in which every pair occurs once and no node occurs twice per round (the circle method)."""
    seats: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    order = {node: index for index, node in enumerate(nodes)}
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        opposite = zip(seats[:half], reversed(seats[half:]), strict=True)
        pairs = [sorted((left, right), key=order.__getitem__) for left, right in opposite if left and right]
        rounds.append([(source, target) for source, target in pairs])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds
