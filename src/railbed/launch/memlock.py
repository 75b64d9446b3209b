"""The memory that a rank may lock: RDMA pins its buffers."""

from __future__ import annotations

import resource


def raise_memlock() -> None:
    """Let this process lock as much memory as its account may."""
    _, most = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))
