"""JSON lines from a rank to the one who started it, and the heartbeat."""

from __future__ import annotations

import errno
import json
import math
import os
import threading
import time

from railbed.errors import os_reason

BEAT_SECONDS = 1.0
NOBODY_LISTENS = 4
"""Exit code of a rank whose starter is gone."""


class Messages:
    """The way back to the starter. Where nobody reads any more, the rank ends at once."""

    def __init__(self, descriptor: int, rank: int) -> None:
        self.rank = rank
        self.step = 0
        """The last step that is complete; the heartbeat tells it."""
        self.phase = "starting"
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, kind: str, **fields: object) -> None:
        """Send one message; a number that is not finite is sent as null, which JSON knows."""
        values = {"kind": kind, "rank": self.rank, "time": time.time(), **fields}
        line = json.dumps({key: _finite(value) for key, value in values.items()}) + "\n"
        try:
            with self._lock:
                _write_all(self._descriptor, line.encode())
        except OSError:
            os._exit(NOBODY_LISTENS)

    def start_heart(self) -> None:
        """Send `alive` from now on."""
        threading.Thread(target=self._beat, name="heart", daemon=True).start()

    def _beat(self) -> None:
        while True:
            self.send("alive", step=self.step, phase=self.phase, stepping=self.phase == "training")
            time.sleep(BEAT_SECONDS)


def sentence_of(error: BaseException) -> str:
    """Return an error that nobody expected as a sentence."""
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{os_reason(error)}: {error.filename}" if error.filename else os_reason(error)
    return f"{type(error).__name__}: {str(error).strip()[:400]}"


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
