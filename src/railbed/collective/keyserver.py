"""Keys and values for the ranks of one job, served by rank 0 to clients that prove that they have the job's secret.

It listens at one address only. All other clients are rejected before they can request anything: such a connection
takes one of a few slots for unproven clients, for some seconds at most, and is reported.

Every connection has its own thread, because a request may wait for a key that another connection has yet to set.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from railbed.collective.channel import Channel, NotAuthentic, Silent

Alarm = Callable[[str, str], None]
"""Receives the address of a stranger, and a sentence about what it did."""

NEWCOMERS = 64
"""Unproven connections allowed at a time, in addition to those of the ranks; one more closes the oldest."""
PROOF_SECONDS = 5.0
ALARMS = 16
"""Strangers that are each reported; of more, only the 32nd, 64th, …"""
PATIENT_STRANGERS, PAUSE_SECONDS = 64, 0.01
"""After this many strangers, and once all ranks have joined, a pause follows each connection: a flood must not keep
rank 0 from computing."""
OK, MISSING = b"ok", b"missing"


class Keys:
    """The keys and values; every method serves one kind of request, and returns the parts of the answer."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._changed = threading.Condition()
        self._requests: dict[bytes, Callable[..., Sequence[bytes]]] = {
            b"set": self._set,
            b"get": self._get,
            b"add": self._add,
            b"append": self._append,
            b"check": self._check,
            b"wait": self._wait,
            b"delete": self._delete,
            b"compare": self._compare,
            b"count": lambda: [OK, b"%d" % len(self._values)],
        }

    def answer(self, request: Sequence[bytes]) -> Sequence[bytes]:
        """Serve a request; raise ValueError for one that no rank sends."""
        name, *arguments = request or [b""]
        try:
            return self._requests[name](*arguments)
        except (KeyError, TypeError) as error:
            raise ValueError(f"unknown request {name!r}") from error

    def _set(self, *pairs: bytes) -> Sequence[bytes]:
        with self._changed:
            self._values.update(zip(pairs[::2], pairs[1::2], strict=True))
            self._changed.notify_all()
        return [OK]

    def _get(self, milliseconds: bytes, *keys: bytes) -> Sequence[bytes]:
        with self._changed:
            if not self._all_come(keys, milliseconds):
                return [MISSING, *(key for key in keys if key not in self._values)]
            return [OK, *(self._values[key] for key in keys)]

    def _wait(self, milliseconds: bytes, *keys: bytes) -> Sequence[bytes]:
        return [self._get(milliseconds, *keys)[0]]

    def _check(self, *keys: bytes) -> Sequence[bytes]:
        with self._changed:
            return [OK if all(key in self._values for key in keys) else MISSING]

    def _add(self, key: bytes, amount: bytes) -> Sequence[bytes]:
        with self._changed:
            self._values[key] = b"%d" % (int(self._values.get(key, b"0")) + int(amount))
            self._changed.notify_all()
            return [OK, self._values[key]]

    def _append(self, key: bytes, more: bytes) -> Sequence[bytes]:
        with self._changed:
            self._values[key] = self._values.get(key, b"") + more
            self._changed.notify_all()
        return [OK]

    def _delete(self, key: bytes) -> Sequence[bytes]:
        with self._changed:
            return [MISSING if self._values.pop(key, None) is None else OK]

    def _compare(self, key: bytes, expected: bytes, desired: bytes) -> Sequence[bytes]:
        """Set a key if it has the expected value (a missing key counts as empty); return its value after that."""
        with self._changed:
            if self._values.get(key, b"") == expected:
                self._values[key] = desired
                self._changed.notify_all()
            return [OK, self._values.get(key, expected)]

    def _all_come(self, keys: Sequence[bytes], milliseconds: bytes) -> bool:
        return self._changed.wait_for(lambda: all(key in self._values for key in keys), int(milliseconds) / 1000)


class KeyServer:
    """Serves keys on a socket that listens, until it is closed."""

    def __init__(self, listener: socket.socket, key: bytes, world: int, alarm: Alarm) -> None:
        self._listener = listener
        self._key = key
        self._alarm = alarm
        self._keys = Keys()
        self._newcomers: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        self._world = world
        self._strangers = self._known = 0
        threading.Thread(target=self._accept, name="key server", daemon=True).start()

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Accept no further connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, (host, *_) = self._listener.accept()
            except ConnectionAbortedError:
                continue
            except OSError:
                if self._listener.fileno() < 0:
                    return
                time.sleep(PAUSE_SECONDS)  # out of file descriptors for the moment
                continue
            self._make_room(connection)
            try:
                threading.Thread(target=self._serve, args=(connection, host), name="key client", daemon=True).start()
            except RuntimeError:  # out of threads
                connection.close()
            if self._strangers > PATIENT_STRANGERS and self._known >= self._world:
                time.sleep(PAUSE_SECONDS)

    def _make_room(self, connection: socket.socket) -> None:
        with self._lock:
            self._newcomers.append(connection)
            oldest = self._newcomers.popleft() if len(self._newcomers) > NEWCOMERS + 2 * self._world else None
        if oldest:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its own thread closes it

    def _serve(self, connection: socket.socket, host: str) -> None:
        with connection, suppress(Silent, EOFError, OSError, ValueError):
            try:
                channel = self._admit(connection)
                with self._lock:
                    self._known += 1
                while True:
                    channel.send(self._keys.answer(channel.receive()))
            except NotAuthentic as error:
                self._report(host, str(error))

    def _admit(self, connection: socket.socket) -> Channel:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return Channel.accept(connection, self._key, PROOF_SECONDS)
        finally:
            with self._lock, suppress(ValueError):
                self._newcomers.remove(connection)

    def _report(self, host: str, what: str) -> None:
        with self._lock:
            self._strangers += 1
            count = self._strangers
        if count <= ALARMS or count.bit_count() == 1:
            number = f" (number {count} of this kind)" if count > ALARMS else ""
            self._alarm(host, f"a connection from {host} to the ranks' rendezvous was rejected{number}: {what}")
