"""Where the ranks of a generation meet: a port that an agent opens before they start, and that rank 0 inherits.

So the port is known before any rank runs, and nobody can take it in between. Standard library only: it runs on nodes.
"""

from __future__ import annotations

import asyncio
import errno
import pwd
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

BACKLOG = 256
TAKEN_SECONDS = 5.0
"""How long to wait for a port that is in use: a rank of an agent that was killed may still be ending."""
AGAIN_SECONDS = 0.2
LISTENING = "0A"
"""The state of a socket that listens, in /proc/net/tcp."""


class MeetingPort:
    """The open port. A certain port stays open from one generation to the next: nobody else can take it meanwhile."""

    def __init__(self) -> None:
        self._listener: socket.socket | None = None
        self._requested = ("", 0)

    @property
    def descriptor(self) -> int:
        """Return the file descriptor for rank 0; raise OSError if the port is not open."""
        if self._listener is None:
            raise OSError(errno.EBADF, "the port on which the ranks meet is not open")
        return self._listener.fileno()

    async def open(self, address: str, port: int) -> int:
        """Open a port at an address, any free one if it is 0, and return it; raise OSError if that is impossible."""
        is_open = self._listener is not None and self._requested == (address, port) and port
        if not is_open:
            self.close()
            self._listener = await _listen(address, port)
            self._requested = (address, port)
        assert self._listener
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Close the port here; a rank that has inherited it keeps it."""
        if self._listener:
            self._listener.close()
        self._listener = None


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens at an address, on any free port if it is 0."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=BACKLOG)


async def _listen(address: str, port: int) -> socket.socket:
    """Listen, once whoever holds the port has released it; raise OSError with the holder's name if nobody does."""
    deadline = time.monotonic() + TAKEN_SECONDS
    while True:
        try:
            return listen(address, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not port:
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.EADDRINUSE, f"it is held by {holder_of(port)}") from None
        await asyncio.sleep(AGAIN_SECONDS)


def holder_of(port: int) -> str:
    """Return who holds a TCP port of this machine, as words: the kernel shows everybody which account it is."""
    sockets = sorted(_sockets(port), key=lambda row: row[0] != LISTENING)
    if not sockets:
        return "another program"
    uid = sockets[0][1]
    try:
        return f"a program of {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"a program of user {uid}"


def _sockets(port: int) -> Iterator[tuple[str, int]]:
    """Yield state and owner of the sockets with a local port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError, ValueError, IndexError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[3], int(fields[7])
