"""Nodes with the same findings share one block, under a name such as `node1–node4, node7`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Verdict

PARTS_SHOWN = 4
NODE, ADDRESS = "NODE", "ADDRESS"
"""Placeholders for the name and the addresses of each node in a text about several nodes."""
NUMBERED = re.compile(r"(.*?)(\d{1,9})", re.DOTALL | re.ASCII)

Key = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes (or rails) and their common findings."""

    names: tuple[str, ...]
    findings: list[Finding]


class NodeNames:
    """Node names and addresses to mask when comparing findings."""

    def __init__(self, cluster: Cluster | None) -> None:
        self._patterns: dict[str, re.Pattern[str]] = {}
        for name, node in cluster.nodes.items() if cluster else ():
            addresses = [str(port.address) for port in node.ports] + [node.host]
            words = "|".join(re.escape(word) for word in (name, *addresses))
            self._patterns[name] = re.compile(rf"(?<![\w.:-])(?:{words})(?![\w-]|[.:]\w)")

    def generalise(self, finding: Finding, node: str) -> Finding:
        """Return a finding with the node's name and addresses masked."""
        pattern = self._patterns.get(node)
        if pattern is None:
            return finding

        def masked(text: str) -> str:
            return pattern.sub(lambda match: NODE if match.group() == node else ADDRESS, text)

        return replace(
            finding,
            expected=masked(finding.expected),
            observed=masked(finding.observed),
            remedy=masked(finding.remedy),
        )


def blocks(groups: Iterable[tuple[str, list[Finding]]], names: NodeNames, *, verbose: bool) -> list[NodeGroup]:
    """Merge nodes with the same findings, in order of first occurrence; `verbose` also compares passing checks."""
    together: dict[Key, list[tuple[str, list[Finding], list[Finding]]]] = {}
    for name, findings in groups:
        for_all = [names.generalise(finding, name) for finding in findings]
        together.setdefault(_key(name, for_all, verbose=verbose), []).append((name, findings, for_all))
    return [
        NodeGroup(tuple(name for name, _, _ in members), members[0][1] if len(members) == 1 else members[0][2])
        for members in together.values()
    ]


def _key(name: str, findings: Iterable[Finding], *, verbose: bool) -> Key:
    """Return a key that is equal for nodes that look the same on the screen."""
    return tuple(sorted(_shown(name, finding, verbose=verbose) for finding in findings))


def _shown(name: str, finding: Finding, *, verbose: bool) -> tuple[str, ...]:
    port = finding.subject.removeprefix(name)
    if not verbose and finding.verdict is Verdict.OK:
        return finding.check, finding.verdict
    if not verbose and finding.verdict is Verdict.SKIPPED:
        return finding.check, finding.verdict, finding.observed
    return finding.check, finding.verdict, port, finding.observed, finding.expected, finding.remedy


def name_range(names: Sequence[str]) -> str:
    """Return `node1–node4, node7`; for a long list, the first parts and the number of others."""
    parts = [part for run in _runs(sorted(names, key=_natural)) for part in _parts(run)]
    if len(parts) <= PARTS_SHOWN + 1:
        return ", ".join(word for word, _ in parts)
    rest = sum(count for _, count in parts[PARTS_SHOWN:])
    return f"{', '.join(word for word, _ in parts[:PARTS_SHOWN])} and {rest} others"


def _runs(names: Sequence[str]) -> list[list[str]]:
    """Group consecutive names: the same prefix and the next number."""
    runs = [[name] for name in names[:1]]
    for before, name in pairwise(names):
        if _follows(before, name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs


def _parts(run: Sequence[str]) -> list[tuple[str, int]]:
    """Return the parts of a run and how many names each covers; two names are not a range."""
    return [(f"{run[0]}–{run[-1]}", len(run))] if len(run) > 2 else [(name, 1) for name in run]


def _follows(before: str, name: str) -> bool:
    first, second = NUMBERED.fullmatch(before), NUMBERED.fullmatch(name)
    if not first or not second or first[1] != second[1]:
        return False
    padded = first[2].startswith("0") or second[2].startswith("0")
    return int(second[2]) == int(first[2]) + 1 and (not padded or len(first[2]) == len(second[2]))


def _natural(name: str) -> tuple[str, int, str]:
    match = NUMBERED.fullmatch(name)
    return (match[1], int(match[2]), name) if match else (name, -1, name)
