"""The keys and values that the ranks of a job share, as a store of torch: `keyserver` serves them at rank 0.

Torch, MPI and railbed exchange them through it. Torch's own store lets everybody who reaches it list, read, write and
delete. This one replaces it wherever torch needs one, so that nothing bypasses the authentication.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

from torch._C._distributed_c10d import Store

from railbed.collective.channel import Channel, NotAuthentic
from railbed.collective.keyserver import MISSING, Alarm
from railbed.errors import Interference

ATTEMPT_SECONDS = 5.0
AGAIN_SECONDS = 0.02
ANSWER_SECONDS = 20.0
"""How much longer than the requested wait the server may take to answer."""
IMPOSTOR_SECONDS = 5.0
"""How long to retry while a stranger answers in place of rank 0."""

_OPEN: list[Store] = []
"""Torch only keeps its C++ half of a store alive; without this reference the Python half would be collected."""


class KeyStore(Store):
    """A client of the key server.

    Several threads may use it: each request has its own connection, since a wait would block the others.
    """

    def __init__(self, address: str, port: int, key: bytes, timeout: float, alarm: Alarm) -> None:
        super().__init__()
        self._place = (address, port)
        self._key = key
        self._seconds = timeout
        self._alarm = alarm
        self._idle: list[Channel] = []
        self._lock = threading.Lock()

    def open(self) -> None:
        """Connect; raise TimeoutError if nobody answers, Interference if a stranger does."""
        with self._report_stranger():
            channel = self._connect(self._seconds)
        with self._lock:
            self._idle.append(channel)
        _OPEN.append(self)

    def close(self) -> None:
        """Hang up."""
        _OPEN.remove(self)
        for channel in self._idle:
            channel.close()

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key."""
        self._ask([b"set", _bytes(key), _bytes(value)])

    def get(self, key: str) -> bytes:
        """Return the value of a key, once it has one."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of keys, once all have one."""
        answer = self._ask([b"get", _milliseconds(self._seconds), *map(_bytes, keys)], self._seconds)
        if answer[0] == MISSING:
            raise _late(keys, self._seconds)
        return answer[1:]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several keys at once."""
        pairs = zip(keys, values, strict=True)
        self._ask([b"set", *(_bytes(part) for pair in pairs for part in pair)])

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which starts at 0, and return it."""
        return int(self._ask([b"add", _bytes(key), b"%d" % amount])[1])

    def append(self, key: str, value: str | bytes) -> None:
        """Append to a value."""
        self._ask([b"append", _bytes(key), _bytes(value)])

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all these keys have values."""
        return self._ask([b"check", *map(_bytes, keys)])[0] != MISSING

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait for keys to have values."""
        seconds = self._seconds if timeout is None else timeout.total_seconds()
        if self._ask([b"wait", _milliseconds(seconds), *map(_bytes, keys)], seconds)[0] == MISSING:
            raise _late(keys, seconds)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Set a key if it has the expected value, and return the value it has then."""
        return self._ask([b"compare", _bytes(key), _bytes(expected), _bytes(desired)])[1]

    def delete_key(self, key: str) -> bool:
        """Remove a key, and return whether it was there."""
        return self._ask([b"delete", _bytes(key)])[0] != MISSING

    def num_keys(self) -> int:
        """Return how many keys there are."""
        return int(self._ask([b"count"])[1])

    # Torch calls all other methods by the names above, and these two by their names in C++.
    deleteKey = delete_key  # noqa: N815
    getNumKeys = num_keys  # noqa: N815

    def has_extended_api(self) -> bool:
        """Return whether `append`, `multi_get` and `multi_set` are implemented."""
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the default time-out."""
        self._seconds = timeout.total_seconds()

    @property
    def timeout(self) -> timedelta:
        """The default time-out."""
        return timedelta(seconds=self._seconds)

    def clone(self) -> KeyStore:
        """Return this store: it serves any number of threads."""
        return self

    def _ask(self, request: Sequence[bytes], seconds: float = 0.0) -> list[bytes]:
        try:
            with self._report_stranger(), self._channel() as channel:
                channel.limit(seconds + ANSWER_SECONDS)
                channel.send(request)
                return channel.receive()
        except (EOFError, OSError) as error:
            reason = str(error) or "the connection was closed"
            raise RuntimeError(f"the connection to rank 0 at {self._place[0]} was lost: {reason}") from None

    @contextlib.contextmanager
    def _report_stranger(self) -> Iterator[None]:
        try:
            yield
        except NotAuthentic as error:
            sentence = f"a stranger answers as rank 0 at {self._place[0]}, port {self._place[1]}: {error}"
            self._alarm(self._place[0], sentence)
            raise Interference(sentence) from None

    @contextlib.contextmanager
    def _channel(self) -> Iterator[Channel]:
        """Yield a connection, and reuse it for the next request if this one succeeds."""
        with self._lock:
            channel = self._idle.pop() if self._idle else None
        channel = channel or self._connect(ATTEMPT_SECONDS)
        try:
            yield channel
        except BaseException:
            channel.close()
            raise
        with self._lock:
            self._idle.append(channel)

    def _connect(self, seconds: float) -> Channel:
        """Connect, and retry while nobody answers or a stranger does."""
        begin = time.monotonic()
        impostor: float | None = None
        while True:
            try:
                return self._attempt(min(ATTEMPT_SECONDS, seconds))
            except NotAuthentic:
                impostor = impostor or time.monotonic()
                if time.monotonic() - impostor > IMPOSTOR_SECONDS:
                    raise
            except (EOFError, OSError):
                impostor = None  # nobody listens yet, or the server has no free slot
            if time.monotonic() - begin > seconds:
                raise TimeoutError(f"no answer within {seconds:g} s")
            time.sleep(AGAIN_SECONDS)

    def _attempt(self, seconds: float) -> Channel:
        connection = socket.create_connection(self._place, seconds)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return Channel.connect(connection, self._key)
        except BaseException:
            connection.close()
            raise


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _milliseconds(seconds: float) -> bytes:
    return b"%d" % max(1, round(seconds * 1000))


def _late(keys: Sequence[str], seconds: float) -> RuntimeError:
    return RuntimeError(f"wait timed out after {seconds:g} s for {', '.join(keys)[:200]}")
