"""Lines of a switch's configuration: merged from all fixes, and ordered by reference.

Nothing is used before it exists, and nothing is removed while something uses it: class-maps, then policy-maps, then
their attachments; what is no longer used is removed at the end, in the opposite order. Within a section, removals come
first, since most slots hold one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from railbed.configure.planned import PlannedFix
from railbed.model.fix import ConfigStep, configure_lines
from railbed.parsing.nexus.interruption import InForce, interruption_of
from railbed.parsing.nexus.slots import parse_lines

PHASES = ("feature", "class-map", "policy-map", "system qos", "interface")
REMOVALS = ("no policy-map", "no class-map", "no feature")


@dataclass(slots=True)
class EnteredSection:
    """A line and the lines below it."""

    line: str
    below: dict[str, EnteredSection] = field(default_factory=dict)
    sources: list[PlannedFix] = field(default_factory=list)
    """The fixes that the lines come from."""

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yield the line and, indented, those below it, removals first."""
        yield f"{'  ' * depth}{self.line}"
        for section in sorted(self.below.values(), key=lambda section: not section.line.startswith("no ")):
            yield from section.lines(depth + 1)


def merge_lines(fixes: Sequence[PlannedFix], in_force: InForce | None = None) -> tuple[PlannedFix, ...]:
    """Return one change for each section of the switch's configuration, in the order to make them.

    `in_force` says where policies are in force, which decides what lines of a policy interrupt.
    """
    root = EnteredSection("")
    for planned in fixes:
        for step in planned.fix.apply:
            if isinstance(step, ConfigStep):
                _add(root, step.lines, planned)
    return tuple(
        _plan(section, in_force) for section in sorted(root.below.values(), key=lambda section: phase(section.line))
    )


def ordered_steps(lines: Iterable[str]) -> tuple[ConfigStep, ...]:
    """Return lines as steps, one for each section, in the order to enter them."""
    sections = sorted(parse_lines(lines).below.values(), key=lambda section: phase(section.line))
    return tuple(ConfigStep(lines=tuple(section.lines())) for section in sections)


def phase(line: str) -> int:
    """Return the sort key of a section: when it is entered."""
    for number, start in enumerate(PHASES):
        if line.startswith(start):
            return number
    for number, start in enumerate(REMOVALS):
        if line.startswith(start):
            return len(PHASES) + 1 + number
    return len(PHASES)


def _add(root: EnteredSection, lines: Iterable[str], planned: PlannedFix) -> None:
    """Add lines to the sections they belong to, by their indentation."""
    stack: list[tuple[int, EnteredSection]] = [(-1, root)]
    for line in lines:
        indent = len(line) - len(line.lstrip())
        while stack[-1][0] >= indent:
            stack.pop()
        section = stack[-1][1].below.setdefault(line.strip(), EnteredSection(line.strip()))
        if planned not in section.sources:
            section.sources.append(planned)
        stack.append((indent, section))


def _plan(section: EnteredSection, in_force: InForce | None) -> PlannedFix:
    sources = section.sources
    fixes = [planned.fix for planned in sources]
    return PlannedFix(
        checks=tuple(dict.fromkeys(check for planned in sources for check in planned.checks)),
        subject=_subject(sources),
        before="; ".join(dict.fromkeys(planned.before for planned in sources)),
        after="; ".join(dict.fromkeys(planned.after for planned in sources)),
        fix=configure_lines(fixes[0].device, *section.lines(), interruption=interruption_of(section.lines(), in_force)),
    )


def _subject(sources: Sequence[PlannedFix]) -> str:
    """Return the port or switch that the fixes are about; the switch if they are about several ports."""
    subjects = dict.fromkeys(planned.subject for planned in sources)
    return next(iter(subjects)) if len(subjects) == 1 else sources[0].fix.device
