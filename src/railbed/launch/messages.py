"""JSON lines from a rank to the process that started it, and the heartbeat. Standard library only."""

from __future__ import annotations

import json
import math
import os
import threading
import time

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
