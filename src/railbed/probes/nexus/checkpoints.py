"""Checkpoints of a Nexus, and with them railbed's lock (`show checkpoint summary`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import content
from railbed.parsing.nexus.switch_lock import CHANGING, Holder

ENTRY = re.compile(r"\d+\) (?P<name>\S+):")
DESCRIPTION = re.compile(r"Description:\s*(?P<text>.*)")
CREATED = re.compile(r"Created at (?P<time>.+)")
OTHER = re.compile(r"(?:User|System) Checkpoint Summary|-+|Created by .*|Size is .*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCheckpoint:
    """One checkpoint."""

    name: str
    created: str = ""
    """In the words, and by the clock, of the switch."""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints(TextFacts):
    """The checkpoints of a switch."""

    checkpoints: tuple[SwitchCheckpoint, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of all checkpoints."""
        return frozenset(checkpoint.name for checkpoint in self.checkpoints)

    @property
    def lock(self) -> SwitchCheckpoint | None:
        """The checkpoint that exists while railbed changes the switch, or that it left behind."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.name == CHANGING), None)

    @property
    def holder(self) -> Holder | None:
        """Who holds the lock; None if nobody does, or if the lock does not name its holder."""
        return Holder.parse(self.lock.description) if self.lock else None


def parse(text: str) -> Checkpoints:
    """Read the list; a switch without checkpoints prints only headings, or nothing."""
    checkpoints: list[SwitchCheckpoint] = []
    lines = Lines(text)
    for line in content(lines):
        if entry := ENTRY.fullmatch(line):
            checkpoints.append(SwitchCheckpoint(name=entry["name"]))
        elif checkpoints and (changed := _with(checkpoints[-1], line)):
            checkpoints[-1] = changed
        elif not OTHER.fullmatch(line):
            lines.unknown(line)
    lines.require_known("expected a checkpoint")
    return Checkpoints(checkpoints=tuple(checkpoints), not_understood=lines.not_understood)


def _with(checkpoint: SwitchCheckpoint, line: str) -> SwitchCheckpoint | None:
    """Return a checkpoint with what one of its lines adds; None if it adds nothing."""
    if match := CREATED.fullmatch(line):
        return SwitchCheckpoint(name=checkpoint.name, created=match["time"], description=checkpoint.description)
    if match := DESCRIPTION.fullmatch(line):
        text = "" if match["text"] == "None" else match["text"]
        return SwitchCheckpoint(name=checkpoint.name, created=checkpoint.created, description=text)
    return None


PROBE = Probe(
    name="nexus_checkpoints",
    title="checkpoints of a Nexus, and railbed's lock among them",
    command="show checkpoint summary",
    parse=parse,
    facts=Checkpoints,
    runs_on="switch",
)
