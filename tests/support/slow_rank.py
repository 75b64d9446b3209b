"""A rank of training that is really slow: most of the time, no Python runs in its process."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

from railbed.launch import rank
from railbed.train.ranks import FUNCTION

HELD, FREE = 0.009, 0.001


def hold() -> None:
    """Take the interpreter's lock and sleep with it, again and again; a `PyDLL` does not give it back in a call."""
    usleep = ctypes.PyDLL(None).usleep
    while True:
        usleep(int(HELD * 1e6))
        time.sleep(FREE)


if __name__ == "__main__":
    threading.Thread(target=hold, name="slow", daemon=True).start()
    sys.argv[1:1] = ["railbed.train.spec:TrainSpec", FUNCTION]
    code = rank.main()
    sys.stdout.flush()
    os._exit(code)
