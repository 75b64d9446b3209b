"""The command line of a Nexus, however it is reached: alternative forms of a command, and how one is refused."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from railbed.errors import DeviceError
from railbed.model.output import Output
from railbed.transport.base import Command

REFUSAL = re.compile(rb"\s*(?:\^\s+)?(%\s?\S[^\n]*|ERROR:[^\n]*|Syntax error[^\n]*)")
"""How NX-OS refuses a command: `% Invalid command at '^' marker.` below a line with the caret, or `ERROR: …`."""
REFUSED = 1
"""The exit status of a refused command; the switch may report success."""


async def run_first_accepted(command: Command, run_line: Callable[[Command], Awaitable[Output]]) -> Output:
    """Run the lines of a command, which are alternatives, until one is not refused; return its output."""
    *alternatives, last = command.script.strip().splitlines()
    for line in alternatives:
        output = await run_line(replace(command, script=line))
        if output.exit != REFUSED:
            return output
    return await run_line(replace(command, script=last))


def no_programs(device: str, command: str) -> DeviceError:
    """Return the refusal to start a program: ours do not run on a switch."""
    return DeviceError(f"{device} is a switch, which cannot run {command.partition(' ')[0]}")
