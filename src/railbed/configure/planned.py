"""One change of a device: a fix, and the findings it repairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff

from railbed.model.fix import ConfigStep, FileStep, Fix, Step
from railbed.model.record import Change, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFix:
    """A fix with the rules it satisfies, and a description of what it changes."""

    checks: tuple[str, ...]
    subject: str
    before: str
    after: str
    fix: Fix
    shown: tuple[str, ...] = ()
    """The lines to show if those of the steps would be too long: the diff of a file."""

    @classmethod
    def of(cls, finding: Finding, fix: Fix) -> PlannedFix:
        """Plan the fix of a finding."""
        return cls(
            checks=(finding.check,), subject=finding.subject, before=finding.observed, after=finding.expected, fix=fix
        )

    def without_steps(self) -> PlannedFix:
        """Return the change without its steps if it only has to be stored for the next boot."""
        return replace(self, fix=replace(self.fix, apply=(), undo=())) if self.fix.at_boot_only else self

    def also_for(self, checks: tuple[str, ...]) -> PlannedFix:
        """Return the same fix for more rules."""
        return replace(self, checks=tuple(dict.fromkeys((*self.checks, *checks))))

    def record(self, *, left_out: str = "") -> Change:
        """Return it as a record."""
        return Change(
            subject=self.subject,
            action="set",
            before=self.before,
            after=self.after,
            check=", ".join(self.checks),
            apply=self.shown or tuple(line for step in self.fix.apply for line in lines_of(step)),
            undo=tuple(line for step in self.fix.undo for line in lines_of(step)),
            interrupts=self.fix.interrupts,
            losing=self.fix.interruption.losing,
            flapping=self.fix.interruption.flapping,
            left_out=left_out,
        )


def names_of(devices: Sequence[str]) -> str:
    """Return the names of a few devices, or the number of many."""
    return ", ".join(devices) if len(devices) <= 4 else f"{len(devices)} devices"


def pauses(fixes: Sequence[Fix]) -> str:
    """Return what changes interrupt, as the end of a question: on switches with the ports."""
    stops = [fix.device for fix in fixes if fix.interrupts and not fix.interruption]
    parts = [fix.interruption.describe(fix.device) for fix in fixes if fix.interruption]
    parts += [f"traffic of {names_of(stops)} may stop for a moment"] if stops else []
    return "".join(f"; {part}" for part in parts)


def lines_of(step: Step) -> tuple[str, ...]:
    """Return a step as the exact lines that are run, written or entered."""
    match step:
        case FileStep(path=path, content=None):
            return (f"remove {path}",)
        case FileStep(path=path, content=str(content)):
            return (f"write {path}:", *(f"  {line}" for line in content.splitlines()))
        case ConfigStep(lines=lines):
            return lines
    return (str(step),)


def file_difference(before: str, after: str, path: str) -> tuple[str, ...]:
    """Return the lines of a file that change, as a unified diff."""
    lines = changed_lines(before, after)
    return (f"--- {path}", f"+++ {path}", *lines) if lines else ()


def changed_lines(before: str, after: str) -> tuple[str, ...]:
    """Return the lines that change, without the headings of a diff: all that differs is in them."""
    lines = tuple(unified_diff(_lines(before), _lines(after), lineterm="", n=1))[2:]
    return lines or (("only the end of the last line differs",) if before != after else ())


def _lines(text: str) -> list[str]:
    r"""Return the lines of a file; other characters that end a line elsewhere, such as `\r`, are part of them."""
    return text.removesuffix("\n").split("\n") if text else []
