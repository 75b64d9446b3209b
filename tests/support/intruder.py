"""An attacker at the rendezvous of the ranks: `python -m tests.support.intruder ADDRESS PORT FILE`.

With torch's own store client, as anybody has it: list the keys, read them, overwrite and delete them, until the file is
there. It says when it begins, and in the end what it achieved, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from torch._C._distributed_c10d import TCPStore

MOST_SECONDS = 300.0
ATTEMPT = timedelta(milliseconds=300)


def attack(address: str, port: int, stop: Path) -> dict[str, int]:
    """Try everything; return how often each succeeded."""
    achieved = {"connected": 0, "listed": 0, "read": 0, "written": 0, "deleted": 0}
    deadline = time.monotonic() + MOST_SECONDS
    while not stop.exists() and time.monotonic() < deadline:
        with suppress(RuntimeError, ValueError):
            store = TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=ATTEMPT)
            achieved["connected"] += 1
            keys = [key for key in store.list_keys() if not key.startswith("init/")]
            achieved["listed"] += len(keys)
            for key in keys:
                achieved["read"] += bool(store.get(key))
                store.set(key, "poison")
                achieved["written"] += 1
            for key in keys[::3]:
                achieved["deleted"] += store.delete_key(key)
        time.sleep(0.02)
    return achieved


if __name__ == "__main__":
    sys.stdout.write("begins\n")
    sys.stdout.flush()
    sys.stdout.write(json.dumps(attack(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))) + "\n")
