"""The changes as files, for people who apply them by hand: scripts of nodes, lines of switches, each with its undo."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import count

from railbed.configure.plan import DevicePlan, Plan
from railbed.configure.planned import PlannedFix
from railbed.fleet.switch_change import SAVE
from railbed.model.fix import ConfigStep, FileStep, RunStep, Step
from railbed.model.text import printable
from railbed.parsing.nexus.switch_lock import rollback_command

END = "END_OF_FILE"
CHECKPOINT = "railbed-before"
"""The state of a switch before changes that people make by hand."""


def rendered_files(plan: Plan) -> dict[str, str]:
    """Return the files by name."""
    files: dict[str, str] = {}
    for device in plan.devices:
        if device.kind == "switch":
            files[f"{device.device}.cfg"] = _configuration(device)
            files[f"{device.device}-undo.cfg"] = _rollback(device)
        else:
            files[f"{device.device}.sh"] = _script(device)
            files[f"{device.device}-undo.sh"] = _undo_script(device)
    return files


def _script(device: DevicePlan) -> str:
    lines = [
        "#!/bin/sh",
        f"# Changes of {device.device}, as `railbed configure` would make them. Run as root.",
        "set -e",
    ]
    for change in device.changes:
        lines += ["", _comment(change), *_shell(change.fix.apply, backup=True)]
    return "\n".join(lines) + "\n"


def _undo_script(device: DevicePlan) -> str:
    lines = ["#!/bin/sh", f"# Undoes {device.device}.sh. Run as root."]
    for change in reversed(device.changes):
        lines += ["", _comment(change), *_shell(change.fix.undo, backup=False)]
        lines += [_restore(step.path) for step in change.fix.apply if isinstance(step, FileStep)]
    return "\n".join(lines) + "\n"


def _comment(change: PlannedFix) -> str:
    before = f"{change.before} -> " if change.before else ""
    return printable(f"# {', '.join(change.checks)} {change.subject}: {before}{change.after}")


def _shell(steps: Iterable[Step], *, backup: bool) -> list[str]:
    lines: list[str] = []
    for step in steps:
        match step:
            case RunStep():
                lines.append(step.script)
            case FileStep(path=path) if step.content is None:
                lines += [*([_backup(path)] if backup else []), f"rm -f {shlex.quote(path)}"]
            case FileStep(path=path):
                lines += [*([_backup(path)] if backup else []), *_write(step)]
            case ConfigStep():
                raise AssertionError("lines of a switch's configuration for a node")
    return lines


def _backup(path: str) -> str:
    quoted, copy = shlex.quote(path), shlex.quote(f"{path}.before-railbed")
    return f"if [ -e {quoted} ]; then cp -p {quoted} {copy}; fi"


def _restore(path: str) -> str:
    quoted, copy = shlex.quote(path), shlex.quote(f"{path}.before-railbed")
    return f"if [ -e {copy} ]; then mv {copy} {quoted}; else rm -f {quoted}; fi"


def _write(step: FileStep) -> list[str]:
    path = shlex.quote(step.path)
    folder = [f'mkdir -p "$(dirname {path})"'] if step.own_folder else []
    rights = [f"chmod {shlex.quote(step.mode)} {path}"] if step.mode else []
    lines = step.content.removesuffix("\n").split("\n") if step.content else []
    end = next(mark for number in count() if (mark := f"{END}{number or ''}") not in lines)
    return [*folder, f"cat >{path} <<'{end}'", *lines, end, *rights]


def _configuration(device: DevicePlan) -> str:
    lines = [
        f"! Changes of {device.device}, as `railbed configure` would make them, in this order.",
        f"! First enter `checkpoint {CHECKPOINT}`, to which {device.device}-undo.cfg rolls back;",
        "! then `configure terminal`, and these lines.",
        *(
            [f"! Meanwhile {interruption}."]
            if (interruption := device.fix.interruption.describe(device.device))
            else []
        ),
    ]
    for change in device.changes:
        lines += [line for step in change.fix.apply if isinstance(step, ConfigStep) for line in step.lines]
    return "\n".join(lines) + "\n"


def _rollback(device: DevicePlan) -> str:
    return "\n".join([
        f"! Undoes {device.device}.cfg. It needs the checkpoint {CHECKPOINT}, which was created before those lines.",
        "! It also takes back what anybody else has changed since; this shows everything that it takes back:",
        f"! show diff rollback-patch running-config checkpoint {CHECKPOINT}",
        rollback_command(CHECKPOINT),
        f"no checkpoint {CHECKPOINT}",
        f"! If the changes had been saved: {SAVE}",
        "",
    ])  # fmt: skip
