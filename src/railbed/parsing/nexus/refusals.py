"""How NX-OS refuses a command: in words on standard output, while it may still report success.

`% Invalid command at '^' marker.` stands below a line with the caret. A command that is understood but not possible
begins with `ERROR:` or `Error:`, or, from the processes behind the command line, with `command failed:`, `Module 1
returned status "…"` or `Unable to perform the action due to incompatibility:`.
"""

from __future__ import annotations

import re

SENTENCES = (
    r"%\s?\S[^\n]*+",
    r"(?i:error:)[^\n]*+",
    r"(?i:command failed:)[^\n]*+",
    r"(?i:syntax error)[^\n]*+",
    r"Module \d+ returned status[^\n]*+",
    r"Unable to perform the action[^\n]*+",
)
REFUSED_COMMAND = re.compile(rf"\s*+(?:\^\s++)?({'|'.join(SENTENCES)})")
REFUSED_LINE = re.compile(rf"^[ \t]*+({'|'.join(SENTENCES)})", re.MULTILINE)


def refusal_of(text: str) -> str:
    """Return the sentence with which a single command was refused; empty if its output is something else."""
    match = REFUSED_COMMAND.match(text)
    return match[1].strip() if match else ""


def refusal_within(text: str) -> str:
    """Return the first refusal anywhere in the output of several commands: those after it are still executed."""
    match = REFUSED_LINE.search(text)
    return match[1].strip() if match else ""
