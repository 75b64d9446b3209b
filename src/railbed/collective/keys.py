"""How the ranks of a job exchange keys and values.

Keys and values for the ranks of one job, served by rank 0 to clients that prove that they have the job's secret.

It listens at one address only. All other clients are rejected before they can request anything: such a connection
takes one of a few slots for unproven clients, for some seconds at most, and is reported.

Every connection has its own thread, because a request may wait for a key that another connection has yet to set.

A torch store backed by rank 0's key server, through which torch, MPI and railbed exchange keys and values.

Torch's own store lets everybody who reaches it list, read, write and delete. This one replaces it wherever torch needs
one, so that nothing bypasses the authentication.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta

from torch._C._distributed_c10d import Store

from railbed.collective.channel import Channel, NotAuthentic, Silent
from railbed.errors import Interference

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
                channel = self._proven(connection)
                with self._lock:
                    self._known += 1
                while True:
                    channel.send(self._keys.answer(channel.receive()))
            except NotAuthentic as error:
                self._report(host, str(error))

    def _proven(self, connection: socket.socket) -> Channel:
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
        with self._alarmed():
            channel = self._connected(self._seconds)
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
            with self._alarmed(), self._channel() as channel:
                channel.limit(seconds + ANSWER_SECONDS)
                channel.send(request)
                return channel.receive()
        except (EOFError, OSError) as error:
            reason = str(error) or "the connection was closed"
            raise RuntimeError(f"the connection to rank 0 at {self._place[0]} was lost: {reason}") from None

    @contextlib.contextmanager
    def _alarmed(self) -> Iterator[None]:
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
        channel = channel or self._connected(ATTEMPT_SECONDS)
        try:
            yield channel
        except BaseException:
            channel.close()
            raise
        with self._lock:
            self._idle.append(channel)

    def _connected(self, seconds: float) -> Channel:
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
