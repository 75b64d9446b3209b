"""What is alike is shown once: findings, nodes and ports in groups, the same on the terminal and in the report.

Items with the same key are one group, the one way in which alike nodes, ports, findings and changes are merged.
Findings come the worst first, with their verdicts counted. Nodes with the same findings share one block; ports with the
same finding, of a device or of alike nodes, share one entry, with the remedy of the first.

Names that differ between nodes, or between the ports of a device, are masked in texts that are otherwise the same.
Masked texts are only compared. What people read has names: `common` puts those of all nodes and ports in one text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from railbed.model.cabling import cables
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Verdict
from railbed.present.wording import name_range, natural_order

T = TypeVar("T")


def group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Return the items with equal keys in groups, in order of first occurrence."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


IN_BRIEF = (Verdict.OK, Verdict.SKIPPED)
"""Verdicts that need no attention."""


def group_of(finding: Finding) -> str:
    """Return the node, rail or cluster that a finding belongs to."""
    return finding.subject.partition("/")[0]


def group_findings(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings by node (or rail, or cluster), the worst group and the worst finding first."""
    groups = group_by(findings, key=group_of)
    for group in groups:
        group.sort(key=lambda finding: (finding.verdict.rank, finding.check, natural_order(finding.subject)))
    return sorted(groups, key=_badness)


def verdict_counts(findings: Iterable[Finding]) -> list[tuple[Verdict, int, str]]:
    """Return each verdict that occurs, how often, and the noun for that many: `2 failed`, `1 warning`, `3 warnings`."""
    numbers = Counter(finding.verdict for finding in findings)
    return [(verdict, numbers[verdict], _noun(verdict, numbers[verdict])) for verdict in Verdict if numbers[verdict]]


def count_verdicts(findings: Iterable[Finding]) -> str:
    """Return `2 failed · 1 unknown · 31 ok`."""
    return " · ".join(f"{count} {noun}" for _, count, noun in verdict_counts(findings))


def _noun(verdict: Verdict, count: int) -> str:
    if verdict is Verdict.WARN:
        return "warning" if count == 1 else "warnings"
    return "failed" if verdict is Verdict.FAIL else verdict.value


def _badness(findings: Iterable[Finding]) -> list[int]:
    numbers = Counter(finding.verdict for finding in findings)
    return [-numbers[verdict] for verdict in Verdict if verdict is not Verdict.OK]


NODE, ADDRESS, PORT, DEVICE, SWITCH_PORT = "NODE", "ADDRESS", "PORT", "DEVICE", "SWITCH/PORT"
"""Placeholders for the names and addresses of each node and each port, while texts are compared."""
_LETTER_AND_DIGIT = re.compile(r"(?=.*[A-Za-z]).*[0-9]", re.DOTALL)
"""Names of ports that cannot be taken for values, unlike `on` or `1500`, which are legal names of interfaces."""

_BEFORE = r"(?<![\w.:-])"
_AFTER_NODE = r"(?![\w-]|[.:]\w)"
"""The end of a name: node1 is not node10, node1-a or node1.example.com."""
_AFTER_PORT = r"(?![\w-]|[.:]\w|/\d)"
"""The same, and Ethernet1/1 is not Ethernet1/1/2; a prefix such as /24 follows only addresses."""

Words = tuple[tuple[str, str], ...]
"""Names, and the placeholder for each."""


class NameMask:
    """Replaces the names of a node or a port with placeholders."""

    def __init__(self, cluster: Cluster | None) -> None:
        self._nodes: dict[str, Words] = {}
        self._devices: dict[str, str] = {}
        self._cables: dict[str, str] = {}
        if cluster is None:
            return
        for name, node in cluster.nodes.items():
            addresses = [str(port.address) for port in node.ports] + [node.host]
            self._nodes[name] = ((name, NODE), *((address, ADDRESS) for address in addresses if address != name))
        self._devices = {f"{name}/{port.netdev}": port.rdma for name, port in cluster.ports() if port.rdma}
        self._cables = {
            f"{cable.node}/{cable.port.netdev}": f"{cable.switch}/{cable.switch_port.name}" for cable in cables(cluster)
        }

    def without_node(self, text: str, subject: str) -> str:
        """Mask the name and the addresses of the subject's node, and the switch port that the subject is cabled to."""
        node = subject.partition("/")[0]
        return _mask(_mask(text, self._cable(subject)), self._nodes.get(node, ()), end=_AFTER_NODE)

    def without_port(self, text: str, subject: str) -> str:
        """Mask the name of the subject's port, its RDMA device, and the switch port that it is cabled to."""
        return _mask(_mask(text, self._cable(subject)), self._port(subject))

    def likewise(self, subjects: Sequence[str], commands: Iterable[Sequence[str]]) -> str:
        """Return which other ports need the commands of the first one; empty if those do not depend on the port.

        The RDMA device of a port is added if the commands contain it, since it does not follow from the port's name.
        """
        ports = list(zip(subjects, commands, strict=True))
        if len(ports) < 2 or all(
            self.without_port(line, subject) == line for subject, lines in ports for line in lines
        ):
            return ""
        names = [subject.partition("/")[2] for subject in subjects[1:]]
        devices = [self._device_in(subject, lines) for subject, lines in ports[1:]]
        if not any(devices):
            return f"likewise on {name_range(names)}"
        pairs = (f"{name} ({device})" if device else name for name, device in zip(names, devices, strict=True))
        return f"likewise on {', '.join(pairs)}"

    def likewise_on_nodes(self, subjects: Sequence[str], text: str) -> str:
        """Return which other nodes need the remedy of the first one; empty if it does not depend on the node."""
        nodes = [subject.partition("/")[0] for subject in subjects]
        if len(nodes) < 2 or self.without_node(text, subjects[0]) == text:
            return ""
        addresses = tuple(word for word in self._nodes.get(nodes[0], ()) if word[1] == ADDRESS)
        own = ", each with its own address" if _mask(text, addresses, end=_AFTER_NODE) != text else ""
        return f"likewise on {name_range(nodes[1:])}{own}"

    def common(self, texts: Sequence[tuple[str, str]]) -> str:
        """Return texts that differ only in the names of their subjects as one text, with the names of all.

        Each text is given with its subject.
        """
        if len({text for text, _ in texts}) == 1:
            return texts[0][0]
        parts = [self._split(text, subject) for text, subject in texts]
        if any(own[::2] != parts[0][::2] for own in parts):
            return texts[0][0]
        return "".join(
            _join_names([own[at] for own in parts]) if at % 2 else literal for at, literal in enumerate(parts[0])
        )

    def _split(self, text: str, subject: str) -> list[str]:
        """Return the parts of a text: every second one is a name of its subject, or of the switch port there."""
        node, port = subject.partition("/")[::2]
        place = ((subject, ""),) if port and node in self._nodes else ()
        of_port = _words_in(text, (*place, *self._cable(subject), *self._port(subject)))
        of_node = _words_in(text, self._nodes.get(node, ()))
        return _splitter(of_port, of_node).split(text) if of_port or of_node else [text]

    def _port(self, subject: str) -> Words:
        port, device = subject.partition("/")[2], self._devices.get(subject, "")
        names = ((port, PORT), (device, DEVICE))
        return tuple((name, placeholder) for name, placeholder in names if _LETTER_AND_DIGIT.match(name))

    def _cable(self, subject: str) -> Words:
        cable = self._cables.get(subject)
        return ((cable, SWITCH_PORT),) if cable else ()

    def _device_in(self, subject: str, lines: Iterable[str]) -> str:
        """Return the RDMA device of a port if the lines contain it."""
        device = self._devices.get(subject)
        return device if device and any(_mask(line, ((device, DEVICE),)) != line for line in lines) else ""


def _mask(text: str, words: Words, *, end: str = _AFTER_PORT) -> str:
    """Replace whole names with their placeholders."""
    words = _words_in(text, words)
    if not words:
        return text
    placeholders: Mapping[str, str] = dict(words)
    return _pattern(words, end).sub(lambda match: placeholders[match.group()], text)


def _words_in(text: str, words: Words) -> Words:
    """Return the names that a text may contain: most contain none, and a pattern is expensive to build."""
    return tuple(word for word in words if word[0] in text)


@lru_cache(maxsize=4096)
def _pattern(words: Words, end: str) -> re.Pattern[str]:
    return re.compile(rf"{_BEFORE}(?:{_any_of(words)}){end}")


@lru_cache(maxsize=4096)
def _splitter(of_port: Words, of_node: Words) -> re.Pattern[str]:
    by_end = ((of_port, _AFTER_PORT), (of_node, _AFTER_NODE))
    patterns = (rf"(?:{_any_of(words)}){end}" for words, end in by_end if words)
    return re.compile(rf"{_BEFORE}({'|'.join(patterns) or '(?!)'})")


def _any_of(words: Iterable[tuple[str, str]]) -> str:
    return "|".join(re.escape(name) for name, _ in words)


def _join_names(names: Sequence[str]) -> str:
    """Return all names: as a range if they are consecutive, and `rail0 of node1–node3` for the same port of nodes."""
    places = [name.partition("/") for name in dict.fromkeys(names)]
    if len(places) > 1 and len({port for _, slash, port in places if slash}) == 1 and all(place[1] for place in places):
        return f"{places[0][2]} of {name_range(node for node, _, _ in places)}"
    return name_range(names)


Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes (or rails, or switches) and their common findings."""

    names: tuple[str, ...]
    alike: list[tuple[Finding, ...]]
    """Each finding of the first node, with that of every other node."""

    @property
    def findings(self) -> list[Finding]:
        """The findings of the first node."""
        return [same[0] for same in self.alike]


def blocks(groups: Iterable[tuple[str, list[Finding]]], mask: NameMask, *, verbose: bool) -> list[NodeGroup]:
    """Merge nodes with the same findings, in order of first occurrence; `verbose` also compares passing checks."""
    named = [_Member(name, findings, _keys(name, findings, mask, verbose=verbose)) for name, findings in groups]
    together = group_by(named, key=lambda member: tuple(sorted(member.keys)))
    return [NodeGroup(tuple(member.name for member in members), _alike(members)) for members in together]


@dataclass(frozen=True, slots=True)
class _Member:
    """A node with its findings, and for each a key that is equal for findings which look the same on the screen."""

    name: str
    findings: Sequence[Finding]
    keys: Sequence[Key]


def _alike(members: Sequence[_Member]) -> list[tuple[Finding, ...]]:
    """Return each finding of the first node with those of the others, which may have another order."""
    waiting: list[dict[Key, list[Finding]]] = [{} for _ in members]
    for member, own in zip(members, waiting, strict=True):
        for key, finding in zip(member.keys, member.findings, strict=True):
            own.setdefault(key, []).append(finding)
    return [tuple(own[key].pop(0) for own in waiting) for key in members[0].keys]


def _keys(name: str, findings: Iterable[Finding], mask: NameMask, *, verbose: bool) -> list[Key]:
    return [_key_of(name, _generalise(finding, mask), verbose=verbose) for finding in findings]


def _generalise(finding: Finding, mask: NameMask) -> Finding:
    """Return a finding whose texts hold for the same port of any node."""
    return replace(
        finding,
        expected=mask.without_node(finding.expected, finding.subject),
        observed=mask.without_node(finding.observed, finding.subject),
        remedy=mask.without_node(finding.remedy, finding.subject),
    )


def _key_of(name: str, finding: Finding, *, verbose: bool) -> Key:
    port = finding.subject.removeprefix(name)
    if not verbose and finding.verdict is Verdict.OK:
        return finding.check, finding.verdict
    if not verbose and finding.verdict is Verdict.SKIPPED:
        return finding.check, finding.verdict, finding.observed
    return finding.check, finding.verdict, port, finding.observed, finding.expected, finding.remedy


@dataclass(frozen=True, slots=True)
class PortGroup:
    """A finding that some ports of a device have in common."""

    ports: str
    """Their names; empty for a finding about the device itself."""
    finding: Finding
    """That of the first port of the first node; what was observed and expected names all."""
    times: int = 1
    """How often each port has it: a repeated measurement may fail again."""
    likewise: str = ""
    """For which other ports, and on which other nodes, the remedy has to be repeated."""

    @property
    def text(self) -> str:
        """What was observed."""
        return self.finding.observed + (f" ({self.times} times)" if self.times > 1 else "")


def port_groups(alike: Iterable[Sequence[Finding]], mask: NameMask, *, merged: bool = True) -> list[PortGroup]:
    """Return the findings of a device in order of first occurrence, those of alike ports together if `merged`.

    Each comes with those of the nodes that are alike.
    """
    repeats = group_by(alike, key=lambda same: (same[0].subject, _texts(same[0])))

    def key(members: Sequence[Sequence[Finding]]) -> tuple[object, ...]:
        finding = members[0][0]
        port = "" if merged and "/" in finding.subject else finding.subject
        return port, len(members), _texts(_generalise_ports(finding, mask))

    return [_port_group(members, mask) for members in group_by(repeats, key)]


def _port_group(members: Sequence[Sequence[Sequence[Finding]]], mask: NameMask) -> PortGroup:
    ordered = sorted((repeats[0] for repeats in members), key=lambda same: natural_order(same[0].subject))
    findings, first = [same[0] for same in ordered], ordered[0][0]
    every = [finding for same in ordered for finding in same]
    shown = replace(
        first,
        observed=mask.common([(finding.observed, finding.subject) for finding in every]),
        expected=mask.common([(finding.expected, finding.subject) for finding in every]),
    )
    on_ports = mask.likewise([finding.subject for finding in findings], [(finding.remedy,) for finding in findings])
    on_nodes = mask.likewise_on_nodes([finding.subject for finding in ordered[0]], first.remedy)
    ports = name_range(finding.subject.partition("/")[2] for finding in findings)
    return PortGroup(ports, shown, len(members[0]), "; ".join(filter(None, (on_ports, on_nodes))))


def _texts(finding: Finding) -> tuple[str, ...]:
    return finding.check, finding.verdict, finding.observed, finding.expected, finding.remedy


def _generalise_ports(finding: Finding, mask: NameMask) -> Finding:
    """Return a finding whose texts hold for any port of the device."""
    return replace(
        finding,
        expected=mask.without_port(finding.expected, finding.subject),
        observed=mask.without_port(finding.observed, finding.subject),
        remedy=mask.without_port(finding.remedy, finding.subject),
    )
