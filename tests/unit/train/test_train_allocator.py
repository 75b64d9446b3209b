"""Freed memory stays with a rank, so that the next step does not get it page by page again."""

from __future__ import annotations

import subprocess
import sys

SIZE = 100_000_000
"""Bytes of a block: more than glibc keeps by itself."""
HELD = """
import ctypes, os, sys
from pathlib import Path
from railbed.train.worker.hardware import keep_freed_memory

SIZE = int(sys.argv[1])
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def held_after_free():
    before = resident()
    block = library.malloc(SIZE)
    ctypes.memset(block, 1, SIZE)
    library.free(block)
    return resident() - before

plain = held_after_free()
assert keep_freed_memory() or sys.exit("this C library cannot")
print(plain, held_after_free(), held_after_free())
"""


def test_a_block_that_was_freed_stays_and_is_used_again() -> None:
    """Counted in bytes: how many page faults a block takes depends on the size of pages, and on huge ones."""
    command = [sys.executable, "-c", HELD, str(SIZE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    plain, retained, again = map(int, done.stdout.split())
    assert plain < SIZE / 10
    assert retained > SIZE * 9 / 10
    assert again < SIZE / 10
