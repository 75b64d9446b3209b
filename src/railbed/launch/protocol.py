"""What control and agent say to each other: JSON lines, one object each. Only the standard library: it runs on nodes.

To the agent (`do`): start, stop, write, door, reach, beat. From it (`kind`): hello, beat, message (of a rank), log,
exit, halted (a rank is stopped, as by SIGSTOP), stopped (all ranks have ended), door, reach. A rank says what it has to
say as JSON lines on a file descriptor, which its command line names: `alive` every second, with `stepping: false` while
no steps are to be expected of it; `progress` after every `step`; `done`; `intrusion` where somebody without the job's
secret spoke to it; and `error`, with `peer` where it is well and others are not, with `refused` where what was asked
for cannot be, with `interference` where somebody got between the ranks. More is the job's.
"""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]

BEAT_SECONDS = 1.0
SILENCE_SECONDS = 4.0
"""Without a word for so long, the other end is taken for dead."""
LINE_LIMIT = 2**20


def encode(message: Message) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """Return the message of a line, or None where it is none (a banner, a torn line)."""
    try:
        message = json.loads(line)
        if b"\\ud" in line.lower():
            json.dumps(message, ensure_ascii=False).encode()  # half a character cannot be kept
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
