"""Freed memory stays with a rank that trains on a CPU, since the same tensors come and go in every step.

glibc hands large blocks back to the system as soon as they are freed. The next step gets them again page by page: 8,000
page faults in a step of `tiny`, 8 % of its processor time. The memory of a rank does not grow beyond its peak. Where
torch has an allocator of its own (builds for aarch64), this is without effect, and not needed.
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
NEVER, NO_BLOCKS = -1, 0


def keep_freed_memory() -> bool:
    """Keep it from now on; return whether the C library can (glibc can, musl cannot)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_MMAP_MAX, NO_BLOCKS) and mallopt(M_TRIM_THRESHOLD, NEVER))
