"""What a command leaves behind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The text of a command on standard output and standard error, and its exit status."""

    text: str = ""
    status: int = 0
    error: str = ""


def fail(text: str, status: int = 1) -> CommandOutput:
    """Return a failure that is printed on standard output, as esxcli's are."""
    return CommandOutput(f"{text}\n", status)
