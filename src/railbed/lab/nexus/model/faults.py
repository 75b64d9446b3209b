"""Failures that a test injects: commands that the switch refuses, and connections that are cut."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Faults:
    refused: dict[str, str] = field(default_factory=dict)
    commands_until_cut: int | None = None

    def error_for(self, command: str) -> str | None:
        """Return the error that a command gets instead of being run."""
        line = " ".join(command.split())
        return next((error for start, error in self.refused.items() if line.startswith(start)), None)

    def count_command(self) -> bool:
        """Count a command that has run; return whether the connections are cut before its reply."""
        if self.commands_until_cut is None:
            return False
        self.commands_until_cut -= 1
        if self.commands_until_cut > 0:
            return False
        self.commands_until_cut = None
        return True
