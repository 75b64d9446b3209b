"""Validates the steps of a stored undo: they run as root, so a damaged or altered file must not be executed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from railbed.model.fix import ConfigStep, FileStep, Fix, RunStep, SlotStep, Step, is_one_line

MOST_SECONDS = 24 * 3600
_MODE = re.compile(r"[0-7]{3,4}")
_RULE = re.compile(r"[a-z][a-z0-9_]*")
_PORT = re.compile(r"[^\s/]{1,15}")
"""What the kernel accepts as the name of an interface."""
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_OWNER = re.compile(rf"{_NAME}(?::{_NAME})?")


def invalid_part(fix: Fix) -> str:
    """Return what is wrong with a fix, in a few words; empty if every field can be used."""
    if not fix.device.strip() or not fix.device.isprintable():
        return f"{fix.device!r} is not the name of a device"
    if not 0 <= fix.seconds <= MOST_SECONDS:
        return f"{fix.seconds} is not a number of seconds that a change may take"
    return next(filter(None, (_invalid_step(step, fix.device) for step in (*fix.apply, *fix.undo))), "")


def _invalid_step(step: Step, device: str) -> str:
    match step:
        case RunStep():
            return _invalid_part(step.part, device) or _invalid_run(step)
        case FileStep():
            return _invalid_part(step.part, device) or _invalid_file(step)
        case ConfigStep(lines=lines):
            return _invalid_lines(lines)
        case SlotStep():
            return _invalid_lines((*step.section, step.slot, *step.before, *(step.after or ())))


def _invalid_part(part: str, device: str) -> str:
    """Return why a part is not `rule subject, …` of a device or its ports: what is left out depends on it."""
    for key in part.split(", ") if part else ():
        rule, _, subject = key.partition(" ")
        name, slash, port = subject.partition("/")
        if not _RULE.fullmatch(rule) or name != device or (slash and not _PORT.fullmatch(port)):
            return f"{part!r} is not a change of {device}"
    return ""


def _invalid_run(step: RunStep) -> str:
    if not step.command.strip():
        return "a command is empty"
    return _invalid_text("a command", step.command, step.only_if, step.verify)


def _invalid_file(step: FileStep) -> str:
    if not step.path.startswith("/") or not step.path.isprintable() or ".." in step.path.split("/"):
        return f"{step.path!r} is not the absolute path of a file"
    if step.mode and not _MODE.fullmatch(step.mode):
        return f"{step.mode!r} is not a mode in octal, such as 644"
    if step.owner and not _OWNER.fullmatch(step.owner):
        return f"{step.owner!r} is not an owner, such as root:root"
    return _invalid_text(step.path, step.content or "")


def _invalid_text(where: str, *texts: str) -> str:
    return f"{where} contains a null character" if any("\0" in text for text in texts) else ""


def _invalid_lines(lines: Iterable[str]) -> str:
    """Return why a line would be entered as something else than one line of a configuration."""
    for line in lines:
        if not is_one_line(line):
            return f"{line!r} is not a line of a switch's configuration"
    return ""
