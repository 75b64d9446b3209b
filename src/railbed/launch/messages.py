"""The messages of a job: JSON lines between control and agent, and from a rank to the process that started it.

To the agent (`do`): start, stop, write, listen (on the rail, for the others to try), reach (try the others), meet (open
the port where the ranks of the next generation meet, for rank 0 to inherit), beat.
From it (`kind`): hello, beat, message (of a rank), log, exit, halted (a rank is stopped, as by SIGSTOP), stopped (all
ranks have ended), listening, reach, meeting (the port, or why there is none), error (an unknown request).

A rank writes JSON lines to a file descriptor that its command line names: `alive` every second, with `stepping: false`
while no steps are expected; `progress` after every `step`; `rank_done`; `intrusion` if a stranger without the
job's secret connected to it; and `error`, as `launch.rank` describes it. Other kinds are specific to the job.

Standard library only: it runs on nodes.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from typing import Any

BEAT_SECONDS = 1.0
NO_READER = 4
"""Exit code of a rank whose starter is gone."""


class Messages:
    """Messages from a rank to its starter. If nothing reads them, the rank ends at once."""

    def __init__(self, descriptor: int, rank: int) -> None:
        self.rank = rank
        self.step = 0
        """The last completed step; part of the heartbeat."""
        self.phase = "starting"
        self._descriptor = descriptor
        # The heartbeat's thread and the rank itself write to one pipe: lines must not mix.
        self._lock = threading.Lock()

    def send(self, kind: str, **fields: object) -> None:
        """Send one message; a number that is not finite becomes null, since JSON cannot represent it."""
        values = {"kind": kind, "rank": self.rank, "time": time.time(), **fields}
        line = json.dumps({key: _finite(value) for key, value in values.items()}) + "\n"
        try:
            with self._lock:
                _write_all(self._descriptor, line.encode())
        except OSError:
            os._exit(NO_READER)

    def start_heartbeat(self) -> None:
        """Send `alive` every second from now on."""
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _beat(self) -> None:
        while True:
            self.send("alive", step=self.step, phase=self.phase, stepping=self.phase == "training")
            time.sleep(BEAT_SECONDS)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Message = dict[str, Any]

SILENCE_SECONDS = 4.0
"""The other end counts as dead after this long without a message."""
LINE_LIMIT = 2**20
DEEPEST = 32
"""How far a message is nested at most: what is far deeper cannot be stored."""
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Variables with which Python does not look for modules in the current folder."""


def encode(message: Message) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """Return the message of a line, or None if it is something else (a banner, an incomplete line)."""
    try:
        message = json.loads(line)
        if b"\\ud" in line.lower():
            json.dumps(message, ensure_ascii=False).encode()  # half a character cannot be stored
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or (line.count(b"[") + line.count(b"{") > DEEPEST and _is_deeper(message)):
        return None
    return message


def _is_deeper(value: object, than: int = DEEPEST) -> bool:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return than < 0 or any(_is_deeper(item, than - 1) for item in values)
