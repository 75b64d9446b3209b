"""Who sends to whom, and what happens at the same time: pure lists of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Literal

Pattern = Literal["pair", "matrix", "rounds", "ring", "incast", "all"]
Direction = Literal["one", "each", "both"]
Pair = tuple[str, str]
"""A node that sends, and one that receives."""
PATTERNS: dict[Pattern, str] = {
    "pair": "the first two nodes",
    "matrix": "every pair, one at a time",
    "rounds": "every pair, those that share no node at the same time",
    "ring": "each node to the next, all at the same time",
    "incast": "all others to one node at the same time, for each node",
    "all": "each node to each other, all at the same time",
}


def rounds_of(pattern: Pattern, nodes: Sequence[str], direction: Direction) -> list[list[Pair]]:
    """Return the trials of a pattern: the pairs of each run at the same time; fewer than two nodes have none."""
    forward = _forward(pattern, nodes) if len(nodes) > 1 else []
    if direction != "each":
        return forward
    backward = [[(target, source) for source, target in pairs] for pairs in forward]
    # Of two nodes a ring, and of any number all with all, are their own way back.
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
            return [[(one, nodes[(at + 1) % len(nodes)]) for at, one in enumerate(nodes)]]
        case "incast":
            return [[(one, target) for one in nodes if one != target] for target in nodes]
        case "all":
            return [list(permutations(nodes, 2))]


def _distinct(forward: list[Pair], backward: list[Pair]) -> list[list[Pair]]:
    return [forward] if set(forward) == set(backward) else [forward, backward]


def tournament(nodes: Sequence[str]) -> list[list[Pair]]:
    """Return rounds in which every pair meets once and no node is in two pairs of a round (the circle method)."""
    places: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    order = {node: at for at, node in enumerate(nodes)}
    rounds = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        met = zip(places[:half], reversed(places[half:]), strict=True)
        pairs = [sorted((one, other), key=order.__getitem__) for one, other in met if one and other]
        rounds.append([(one, other) for one, other in pairs])
        places = [places[0], places[-1], *places[1:-1]]
    return rounds
