"""An authenticated connection between two processes that share a secret: nobody else can send, alter or replay.

Each side proves that it has the secret before the other accepts anything, by an HMAC over two fresh random numbers.
Then every frame carries an HMAC over its number and content, with a separate key for each connection and direction.
The content can be read on the wire: it is not secret, and keys are never sent.

    client   MAGIC, 32 random bytes
    server   32 random bytes, proof
    client   proof
    both     length (4 bytes), content, HMAC-SHA256 (32 bytes); repeated
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
import time
from collections.abc import Sequence

MAGIC = b"railbed meeting 1\n"
RANDOM_BYTES = 32
MAC_BYTES = 32
MOST_BYTES = 64 << 20
"""A longer frame cannot be valid."""
LENGTH = struct.Struct(">I")
NUMBER = struct.Struct(">Q")


class NotAuthentic(Exception):
    """The other end does not have the secret, or its message was altered on the way."""


class Silent(Exception):
    """The other end sent nothing wrong but did not continue: it only tested whether the port is open, or it ended."""


class Channel:
    """One end of a connection whose two sides have authenticated each other."""

    def __init__(self, connection: socket.socket, sends: bytes, receives: bytes) -> None:
        self._connection = connection
        self._sends, self._receives = sends, receives
        self._sent = self._received = 0

    @classmethod
    def connect(cls, connection: socket.socket, key: bytes) -> Channel:
        """Authenticate to a server, and verify its proof."""
        own = secrets.token_bytes(RANDOM_BYTES)
        connection.sendall(MAGIC + own)
        answer = _read(connection, RANDOM_BYTES + MAC_BYTES)
        both = own + answer[:RANDOM_BYTES]
        if not hmac.compare_digest(answer[RANDOM_BYTES:], _mac(key, b"server", both)):
            raise NotAuthentic("it does not have the secret of this run")
        connection.sendall(_mac(key, b"client", both))
        return cls(connection, _mac(key, b"to server", both), _mac(key, b"to client", both))

    @classmethod
    def accept(cls, connection: socket.socket, key: bytes, seconds: float) -> Channel:
        """Authenticate a client within some seconds, and ourselves to it; raise Silent if it does not try."""
        deadline = time.monotonic() + seconds
        greeting = b""
        while len(greeting) < len(MAGIC) + RANDOM_BYTES:
            greeting += _piece(connection, len(MAGIC) + RANDOM_BYTES - len(greeting), deadline)
            if greeting[: len(MAGIC)] != MAGIC[: len(greeting)]:
                raise NotAuthentic("it does not use the protocol of a run")
        own = secrets.token_bytes(RANDOM_BYTES)
        both = greeting[len(MAGIC) :] + own
        connection.sendall(own + _mac(key, b"server", both))
        proof = b""
        while len(proof) < MAC_BYTES:
            proof += _piece(connection, MAC_BYTES - len(proof), deadline)
        if not hmac.compare_digest(proof, _mac(key, b"client", both)):
            raise NotAuthentic("it does not have the secret of this run")
        connection.settimeout(None)
        return cls(connection, _mac(key, b"to client", both), _mac(key, b"to server", both))

    def send(self, parts: Sequence[bytes]) -> None:
        """Send one message, a list of byte strings."""
        content = b"".join(LENGTH.pack(len(part)) + part for part in parts)
        mac = _mac(self._sends, NUMBER.pack(self._sent), content)
        self._sent += 1
        self._connection.sendall(LENGTH.pack(len(content)) + content + mac)

    def receive(self) -> list[bytes]:
        """Return the next message; raise EOFError at the end, NotAuthentic if it was altered."""
        (length,) = LENGTH.unpack(_read(self._connection, LENGTH.size))
        if length > MOST_BYTES:
            raise NotAuthentic("a message was altered on the way")
        frame = _read(self._connection, length + MAC_BYTES)
        content = frame[:length]
        if not hmac.compare_digest(frame[length:], _mac(self._receives, NUMBER.pack(self._received), content)):
            raise NotAuthentic("a message was altered on the way")
        self._received += 1
        return _parts(content)

    def limit(self, seconds: float) -> None:
        """Limit each wait for the other end."""
        self._connection.settimeout(seconds)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def _mac(key: bytes, purpose: bytes, content: bytes) -> bytes:
    return hmac.digest(key, LENGTH.pack(len(purpose)) + purpose + content, hashlib.sha256)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _piece(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Return some bytes of a new connection; raise Silent if no more come."""
    connection.settimeout(max(0.001, deadline - time.monotonic()))
    try:
        piece = connection.recv(size)
    except OSError:
        piece = b""
    if not piece:
        raise Silent
    return piece


def _parts(content: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(content):
        (length,) = LENGTH.unpack_from(content, at)
        at += LENGTH.size
        parts.append(content[at : at + length])
        at += length
    return parts
