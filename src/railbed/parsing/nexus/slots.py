"""Slots of a switch's configuration: what a change did to it, and the lines that take back just that.

A slot holds lines of a section that replace each other (`mtu 1500` and `mtu 9216`), or a section that can be removed as
a whole, such as a policy-map. What a change touched is a list of slots with their lines before and after it. Undoing it
restores those lines, and leaves alone whatever else is in the same section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from railbed.model.fix import SlotStep

ALWAYS_THERE = ("interface ", "system qos", "vlan ", "vrf ", "line ")
"""Sections that exist even if nothing is configured in them: they are never removed."""
NAMED = ("class-map ", "policy-map ")
REMOVABLE = (*NAMED, "class ")
NETWORK_QOS = re.compile(r"service-policy type network-qos\b")
WORDS = {"service-policy": 4, "priority-flow-control": 2, "flowcontrol": 2, "feature": 99}
"""How many words of a line name its slot; one of all others."""


DEEPEST = 16
"""How far a configuration is nested at most: lines that are indented further are not below each other."""


@dataclass(slots=True)
class ConfigSection:
    """A line of a configuration, and those below it."""

    line: str = ""
    below: dict[str, ConfigSection] = field(default_factory=dict)

    @property
    def slot(self) -> str:
        """The slot that the line is in."""
        return slot_of(self.line, has_lines=bool(self.below))

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yield the line and, indented, those below it."""
        yield f"{'  ' * depth}{self.line}"
        for section in self.below.values():
            yield from section.lines(depth + 1)

    def at(self, path: Iterable[str]) -> ConfigSection:
        """Return the section that lines lead to; an empty one if it is not there."""
        section = self
        for line in path:
            section = section.below.get(line, ConfigSection(line))
        return section

    def holding(self, slot: str) -> ConfigSection:
        """Return the part of a section that is in one slot."""
        return ConfigSection(self.line, {line: section for line, section in self.below.items() if section.slot == slot})

    @property
    def content(self) -> tuple[str, ...]:
        """The lines below it."""
        return tuple(line for section in self.below.values() for line in section.lines())


def parse_lines(lines: Iterable[str]) -> ConfigSection:
    """Read lines that are indented as `show running-config` shows them; comments are left out."""
    root = ConfigSection()
    stack: list[tuple[int, ConfigSection]] = [(-1, root)]
    for line in lines:
        if not line.strip() or line.startswith("!"):
            continue
        indent = len(line) - len(line.lstrip())
        while stack[-1][0] >= indent or len(stack) > DEEPEST:
            stack.pop()
        stack.append((indent, stack[-1][1].below.setdefault(line.strip(), ConfigSection(line.strip()))))
    return root


def slot_of(line: str, *, has_lines: bool = False) -> str:
    """Return the slot of a line."""
    positive = line.removeprefix("no ").strip()
    if has_lines or positive.startswith((*ALWAYS_THERE, *REMOVABLE)):
        return positive
    words = positive.split()
    count = 3 if NETWORK_QOS.match(positive) else WORDS.get(words[0], 1)
    return " ".join(words[:count])


def touched_by(lines: Iterable[str], before: ConfigSection) -> list[SlotStep]:
    """Return the slots that entering lines touches, as they are before."""
    touched = dict.fromkeys(_slots_of(parse_lines(lines), before, ()))
    return [SlotStep(section=path, slot=slot, before=before.at(path).holding(slot).content) for path, slot in touched]


def changed_between(before: ConfigSection, after: ConfigSection, also: Iterable[SlotStep] = ()) -> list[SlotStep]:
    """Return the slots that differ between two configurations, among them those of `also`."""
    slots = dict.fromkeys((*((step.section, step.slot) for step in also), *_different(before, after, ())))
    steps = [
        SlotStep(
            section=path,
            slot=slot,
            before=before.at(path).holding(slot).content,
            after=after.at(path).holding(slot).content,
        )
        for path, slot in slots
    ]
    return [step for step in steps if step.before != step.after]


def content_of(step: SlotStep, running: ConfigSection) -> tuple[str, ...]:
    """Return the lines that a slot has now."""
    return running.at(step.section).holding(step.slot).content


def is_changed_since(step: SlotStep, current: Sequence[str], *, half_undone: bool) -> bool:
    """Whether a slot no longer has the lines that the change gave it.

    If an undo was cut short (`half_undone`), any mixture of the lines before and after the change is its work.
    """
    if step.after is None or tuple(current) in (step.before, step.after):
        return False
    return not (half_undone and set(current) <= {*step.before, *step.after})


def restoring_lines(steps: Iterable[SlotStep], running: ConfigSection) -> list[str]:
    """Return the lines that restore slots: those of one section together, removals first."""
    edits = ConfigSection()
    for step in steps:
        before, current = parse_lines(step.before), running.at(step.section).holding(step.slot)
        difference = _difference(current, before)
        if difference.below:
            _merge(_section_at(edits, step.section), difference)
    return [line for section in edits.below.values() for line in section.lines()]


def still_used(steps: Sequence[SlotStep], running: ConfigSection) -> list[SlotStep]:
    """Return the class-maps and policy-maps that restoring slots would remove while other lines name them."""
    remaining = parse_lines(running.content)
    for step in steps:
        section = remaining.at(step.section)
        section.below = {line: below for line, below in section.below.items() if below.slot != step.slot}
    words = {word for line in remaining.content for word in line.split()}
    removed = [step for step in steps if not step.before and step.slot.startswith(NAMED)]
    used = [step for step in removed if step.slot.split()[-1] in words]
    # What one of them names is used as well.
    return used + (still_used([step for step in steps if step not in used], running) if used else [])


def _slots_of(
    planned: ConfigSection, before: ConfigSection, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    for section in planned.below.values():
        current = before.below.get(section.line)
        if section.below and (current or section.line.startswith(ALWAYS_THERE)):
            yield from _slots_of(section, current or ConfigSection(), (*path, section.line))
        elif current is None or not section.line.startswith((*ALWAYS_THERE, *REMOVABLE)):
            yield path, section.slot


def _different(
    before: ConfigSection, after: ConfigSection, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    for line in dict.fromkeys((*before.below, *after.below)):
        old, new = before.below.get(line), after.below.get(line)
        if (old and new) or line.startswith(ALWAYS_THERE):
            yield from _different(old or ConfigSection(line), new or ConfigSection(line), (*path, line))
        else:
            yield path, (old or new or ConfigSection(line)).slot


def _difference(current: ConfigSection, wanted: ConfigSection) -> ConfigSection:
    """Return the lines to enter so that a section has the wanted lines."""
    edits = ConfigSection(current.line)
    for line in current.below:
        if line not in wanted.below:
            negated = line.removeprefix("no ") if line.startswith("no ") else f"no {line}"
            edits.below[negated] = ConfigSection(negated)
    for line, section in wanted.below.items():
        if line not in current.below:
            edits.below[line] = section
        elif nested := _difference(current.below[line], section).below:
            edits.below[line] = ConfigSection(line, nested)
    return edits


def _section_at(root: ConfigSection, path: Iterable[str]) -> ConfigSection:
    for line in path:
        root = root.below.setdefault(line, ConfigSection(line))
    return root


def _merge(into: ConfigSection, edits: ConfigSection) -> None:
    """Add lines to a section, removals first: some lines exclude each other."""
    below = {**into.below, **edits.below}
    into.below = dict(sorted(below.items(), key=lambda item: not item[0].startswith("no ")))


def lines_to_enter(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines as they are typed; `exit` leaves each mode, since some lines are valid in two modes."""
    depth: list[int] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        while depth and depth[-1] >= indent:
            if depth.pop() > indent:
                yield "exit"
        depth.append(indent)
        yield line.strip()
