"""What an undo would do: take back what the run has changed, unless somebody has changed it since, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from railbed.configure.planned import changed_lines
from railbed.configure.switchlines import ordered_steps
from railbed.model.fix import FileStep, Fix, RunStep, SlotStep, Step
from railbed.model.record import Change, Finding, Verdict
from railbed.parsing.nexus.interruption import interruption_of, places_in
from railbed.parsing.nexus.slots import ConfigSection, content_of, is_changed_since, restoring_lines, still_used

Values = Mapping[str, str]
"""What rules observed, by `rule subject`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoTerms:
    """Which run is undone, and whether what others have changed since is overwritten."""

    run: str
    overwrite: bool = False

    @property
    def goal(self) -> str:
        """What the changes lead to."""
        return f"as before {self.run}"

    @property
    def consent(self) -> str:
        """How to undo something that is left out."""
        return f"`railbed configure --undo {self.run} --overwrite` undoes it all the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The undo of a run on one device."""

    fix: Fix
    """What is left to do."""
    changes: tuple[Change, ...]
    """The same for people, and what is left out."""

    @property
    def is_empty(self) -> bool:
        """Whether everything is left out."""
        return bool(self.changes) and all(change.left_out for change in self.changes)


def values_of(findings: Iterable[Finding]) -> Values:
    """Return what rules observed, without what they could not read."""
    values: dict[str, list[str]] = {}
    for finding in findings:
        if finding.verdict is not Verdict.UNKNOWN:
            values.setdefault(f"{finding.check} {finding.subject}", []).append(finding.observed)
    return {key: "; ".join(observed) for key, observed in values.items()}


def values_before(changes: Iterable[Change]) -> Values:
    """Return what rules had observed when a run planned its changes."""
    return {f"{check} {change.subject}": change.before for change in changes for check in change.check.split(", ")}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUndo:
    """What is known about a node whose changes are to be undone."""

    fix: Fix
    """The undo that the run saved."""
    files: Sequence[FileStep]
    """The files of the undo as they are now."""
    before: Values
    """What rules observed before the run."""
    after: Values
    """What they observed right after it."""
    now: Values
    terms: UndoTerms

    def plan(self) -> UndoPlan:
        """Plan the undo, step by step in the order that was saved."""
        changes: list[Change] = []
        remaining: list[Step] = []
        restored: set[str] = set()
        for (part, _), group in groupby(self.fix.apply, key=_part_of):
            steps = list(group)
            change = self._file(steps[0]) if isinstance(steps[0], FileStep) else self._commands(steps)
            if not change.left_out:
                remaining += steps
                change = replace(change, undo=_scripts(self._restoring({part} - restored)))
                restored.add(part)
            changes.append(change)
        fix = replace(self.fix, apply=tuple(remaining), undo=tuple(self._restoring(restored)))
        return _undo_plan(fix, changes)

    def _restoring(self, parts: Collection[str]) -> Iterator[RunStep]:
        """Yield the commands that run if the undo of some parts fails, which also restores their files from copies."""
        for step in self.fix.undo:
            if isinstance(step, RunStep) and step.part in parts:
                yield step

    def _commands(self, steps: Sequence[Step]) -> Change:
        part = _part_of(steps[0])[0]
        keys = part.split(", ") if part else []
        known = {key: self.now[key] for key in keys if key in self.now}
        changed = any(
            key in self.after and value not in (self.after[key], self.before.get(key)) for key, value in known.items()
        )
        return Change(
            subject=keys[0].partition(" ")[2] if keys else self.fix.device,
            action="set",
            check=", ".join(key.partition(" ")[0] for key in keys),
            before="; ".join(dict.fromkeys(known.values())),
            after="; ".join(dict.fromkeys(self.before[key] for key in keys if key in self.before)) or self.terms.goal,
            apply=_scripts(steps),
            interrupts=self.fix.interrupts,
            left_out=self._changed_since(keys) if changed and not self.terms.overwrite else "",
        )

    def _changed_since(self, keys: Sequence[str]) -> str:
        values = "; ".join(dict.fromkeys(self.after[key] for key in keys if key in self.after))
        return f"changed since {self.terms.run}, which left {values}; {self.terms.consent}"

    def _file(self, step: FileStep) -> Change:
        now = next(file for file in self.files if file.path == step.path)
        written = {made.path: made.content for made in self.fix.undo if isinstance(made, FileStep)}
        changed = now.content not in (step.content, written.get(step.path, now.content))
        reason = f"{step.path} was changed since {self.terms.run}; {self.terms.consent}"
        return Change(
            subject=self.fix.device,
            action="set",
            after=f"{step.path} {self.terms.goal}",
            apply=tuple(_file_lines(step, now)),
            left_out=reason if changed and not self.terms.overwrite else "",
        )


def _scripts(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the lines of commands with their conditions and verification, as they are run."""
    return tuple(line for step in steps if isinstance(step, RunStep) for line in step.script.splitlines())


def _part_of(step: Step) -> tuple[str, str]:
    """Return what the steps of one change have in common; every file is a change of its own."""
    match step:
        case FileStep():
            return step.part, step.path
        case RunStep():
            return step.part, ""
    return "", ""


def _file_lines(step: FileStep, now: FileStep) -> Iterator[str]:
    """Yield what restoring a file does, with every line of it that changes."""
    if step.content is None:
        yield f"remove {step.path}{', and its folder if it is empty' if step.own_folder else ''}"
    else:
        yield f"write {step.path}{', and create its folder if it is missing' if step.own_folder else ''}"
        if (step.mode, step.owner) != (now.mode, now.owner):
            yield f"  mode {now.mode or 'none'} → {step.mode}, owner {now.owner or 'none'} → {step.owner}"
    yield from (f"  {line}" for line in changed_lines(now.content or "", step.content or ""))


def plan_switch(fix: Fix, running: ConfigSection, *, half_undone: bool, terms: UndoTerms) -> UndoPlan:
    """Plan the undo of a switch from its running configuration."""
    slots = [step for step in fix.apply if isinstance(step, SlotStep)]
    current = {step: content_of(step, running) for step in slots}
    left = [
        step for step in slots if not terms.overwrite and is_changed_since(step, current[step], half_undone=half_undone)
    ]
    used = still_used([step for step in slots if step not in left], running)
    restored = [step for step in slots if step not in (*left, *used)]
    steps = ordered_steps(restoring_lines(restored, running))
    shown = tuple(replace(step, before=current[step], after=None) for step in restored)
    lines = tuple(line for step in steps for line in step.lines)
    interruption = interruption_of(lines, places_in(running))
    restoring = Change(
        subject=fix.device,
        action="set",
        after=terms.goal,
        apply=lines,
        interrupts=bool(interruption),
        losing=interruption.losing,
        flapping=interruption.flapping,
    )
    changes = [restoring] if lines else []
    changes += [_left_alone(fix.device, step, current[step], running, terms) for step in left]
    changes += [
        Change(
            subject=fix.device,
            action="set",
            after=terms.goal,
            apply=tuple(restoring_lines([step], running)),
            left_out=f"{step.slot} is still used by lines that are not undone",
        )
        for step in used
    ]
    undo = replace(fix, apply=steps, undo=shown, interrupts=bool(interruption), interruption=interruption)
    return _undo_plan(undo, changes)


def _left_alone(
    device: str, step: SlotStep, current: Sequence[str], running: ConfigSection, terms: UndoTerms
) -> Change:
    where = " / ".join(step.section)
    left = _on_one_line(step, step.after or ())
    return Change(
        subject=device,
        action="set",
        before=f"{where}{': ' if where else ''}{_on_one_line(step, current)}",
        after=terms.goal,
        apply=tuple(restoring_lines([step], running)),
        left_out=f"changed since {terms.run}, which left {left}; {terms.consent}",
    )


def _on_one_line(step: SlotStep, lines: Sequence[str]) -> str:
    return " / ".join(map(str.strip, lines)) or f"no {step.slot}"


def _undo_plan(fix: Fix, changes: Sequence[Change]) -> UndoPlan:
    count = sum(bool(change.left_out) for change in changes)
    note = f"{count} of {len(changes)} changes left as they are now" if count else ""
    return UndoPlan(fix=replace(fix, note=note), changes=tuple(changes))
