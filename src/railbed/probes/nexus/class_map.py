"""Class-maps of a Nexus, built-in ones included (`show class-map`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import content, read_object, require, rows, value_of
from railbed.parsing.nexus.qos import CLASS_MAP, ClassMap, match_of, policy_type
from railbed.parsing.text import Fields

HEADING = re.compile(r"Type [a-z-]+ class-maps")
MATCHES = {
    "dscp-list": "dscp",
    "cos-list": "cos",
    "precedence-list": "precedence",
    "qos-group-list": "qos-group",
    "nq-qos-group-list": "qos-group",
    "match-acl-name": "access-group name",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMaps(TextFacts):
    """The class-maps of a switch. Their names show how many queues it has: `c-out-8q-q3` eight, `c-out-q3` four."""

    class_maps: tuple[ClassMap, ...]


def parse(text: str) -> ClassMaps:
    """Read both forms."""
    fields, lines = read_object(text), Lines(text)
    class_maps = tuple(_of_json(fields) if fields else _of_text(lines))
    lines.require(class_maps, "no class-map, not even a built-in one")
    return ClassMaps(class_maps=class_maps, not_understood=lines.not_understood)


def _of_json(fields: Fields) -> Iterator[ClassMap]:
    for row in rows(fields, "cmap"):
        entries = [*rows(row, "match"), row]
        matches = [
            match_of(f"{word} {value}")
            for entry in entries
            for key, word in MATCHES.items()
            if (value := value_of(entry, key))
        ]
        yield ClassMap(
            type=policy_type(value_of(row, "xqos-or-q") or "network-qos"),
            name=value_of(row, "nq-cmap-key") or require(row, "cmap-key"),
            match_all=value_of(row, "any_or_all") == "match-all",
            matches=tuple(matches),
        )


def _of_text(lines: Lines) -> Iterator[ClassMap]:
    head: re.Match[str] | None = None
    matches: list[str] = []
    for line in content(lines):
        words = " ".join(line.split())
        if match := CLASS_MAP.fullmatch(words):
            if head:
                yield _class_map(head, matches)
            head, matches = match, []
        elif head and words.startswith("match "):
            with lines.reading(line):
                matches.append(match_of(words))
        elif not HEADING.fullmatch(words) and not words.startswith("Description:"):
            lines.unknown(line)
    if head:
        yield _class_map(head, matches)


def _class_map(head: re.Match[str], matches: list[str]) -> ClassMap:
    return ClassMap(
        type=policy_type(head["type"]),
        name=head["name"],
        match_all=(head["match"] or "").strip() == "match-all",
        matches=tuple(matches),
    )


PROBE = Probe(
    name="nexus_class_map",
    title="class-maps of a Nexus, built-in ones included",
    command="show class-map | json\nshow class-map",
    parse=parse,
    facts=ClassMaps,
    runs_on="switch",
    one_line=True,
)
