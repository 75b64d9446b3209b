"""Makes the interpreter that loads this at its start really slow: most of the time, no Python runs in it."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

HELD, FREE = 0.004, 0.001
LOADED = "railbed.train.worker.traffic"
"""The last module that a rank loads; only then does it become slow."""


def hold() -> None:
    """Take the interpreter's lock and sleep with it, again and again; a `PyDLL` does not give it back in a call."""
    while LOADED not in sys.modules:
        time.sleep(0.02)
    usleep = ctypes.PyDLL(None).usleep
    while True:
        usleep(int(HELD * 1e6))
        time.sleep(FREE)


threading.Thread(target=hold, name="slow", daemon=True).start()
