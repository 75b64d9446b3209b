"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket

RANGE = range(10000, 20000)
"""Below those that the kernel gives to connections: one that is free now stays so until somebody asks for it by name.

Above lie those that railbed's own defaults begin with.
"""


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port that nothing listens on."""
    for port in random.sample(RANGE, 100):
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                free.bind((address, port))
            except OSError:
                continue
            return port
    raise AssertionError(f"of 100 ports of {address} none is free")
