"""A large parcel on a node, complete or on its way: pieces are added in order, and can be read by others meanwhile.

What is not complete is in a folder named by its content, so that a later copy continues it. A parcel is one sequence of
bytes, cut into pieces with a hash each: a copy can be continued, and passed on early.

The hash of a piece covers its files from their beginnings to where the piece ends, which the hash of a file passes
anyway: all hashes together need every byte once. Pieces are verified in order, as they arrive. Standard library only:
it runs on both sides.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from railbed.launch.files.guard import Refusal, content_of, files_in, make, open_below, remove_tree
from railbed.launch.files.server import NEW, PARTIAL, answer, explain_full_disk, is_stored, lock_base, report_working

PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class ByteRange:
    """A part of a piece that lies in one file."""

    name: str
    offset: int
    length: int


@dataclass(frozen=True)
class Pieces:
    """The files of a parcel, one after another, in pieces of equal length; the last may be shorter."""

    files: Sequence[tuple[str, int]]
    """Name and size of each."""
    sums: Sequence[str]
    """For each piece, the SHA-256 over the hashes of its files, each from its beginning to where the piece ends."""

    @property
    def count(self) -> int:
        """Return the number of pieces."""
        return len(self.sums)

    @property
    def total(self) -> int:
        """Return the bytes of all files."""
        return sum(size for _, size in self.files)

    def start(self, index: int) -> int:
        """Return where a piece begins; for the number of pieces, where all of them end."""
        return min(index * PIECE_BYTES, self.total)

    def length(self, index: int) -> int:
        """Return the bytes of a piece."""
        return self.start(index + 1) - self.start(index)

    def spans(self, index: int) -> Iterator[ByteRange]:
        """Yield the parts of files that a piece consists of."""
        begin, end = self.start(index), self.start(index + 1)
        at = 0
        for name, size in self.files:
            first, last = max(begin, at), min(end, at + size)
            if first < last:
                yield ByteRange(name, first - at, last - first)
            at += size

    def as_message(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"files": [list(file) for file in self.files], "sums": list(self.sums)}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Pieces:
        """Read what `as_message` returned."""
        return cls(tuple((str(name), int(size)) for name, size in message["files"]), tuple(message["sums"]))


class PieceVerifier:
    """Verifies pieces, from the first one on."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._file = hashlib.sha256()
        """Of the file that the last piece ends in, up to there."""
        self.verified = 0

    def add(self, data: bytes | bytearray | memoryview) -> bool:
        """Return whether data is the content of the next piece; otherwise that piece is still the next."""
        if len(data) != self._pieces.length(self.verified):
            return False
        file, sums, view = self._file.copy(), hashlib.sha256(), memoryview(data)
        for span in self._pieces.spans(self.verified):
            if not span.offset:
                file = hashlib.sha256()
            file.update(view[: span.length])
            sums.update(file.digest())
            view = view[span.length :]
        if sums.hexdigest() != self._pieces.sums[self.verified]:
            return False
        self._file = file
        self.verified += 1
        return True


class PieceHasher:
    """Hashes files one after another, and the pieces that they are cut into."""

    def __init__(self) -> None:
        self._sums: list[str] = []
        self._piece, self._length = hashlib.sha256(), 0
        self._file, self._in_piece = hashlib.sha256(), 0
        """Of the current file, and how many of its bytes are in the current piece."""

    def update(self, data: bytes) -> None:
        """Add bytes to the current file."""
        view = memoryview(data)
        while view:
            part = view[: PIECE_BYTES - self._length]
            self._file.update(part)
            self._length += len(part)
            self._in_piece += len(part)
            view = view[len(part) :]
            if self._length == PIECE_BYTES:
                self._end_piece()

    def end_file(self) -> str:
        """Return the hash of the current file; what follows belongs to the next."""
        self._end_part()
        digest = self._file.hexdigest()
        self._file = hashlib.sha256()
        return digest

    def finish(self) -> tuple[str, ...]:
        """Return the hashes of all pieces."""
        if self._length:
            self._end_piece()
        return tuple(self._sums)

    def _end_piece(self) -> None:
        self._end_part()
        self._sums.append(self._piece.hexdigest())
        self._piece, self._length = hashlib.sha256(), 0

    def _end_part(self) -> None:
        if self._in_piece:
            self._piece.update(self._file.digest())
        self._in_piece = 0


PAUSE_SECONDS = 0.5
STALLED_SECONDS = 120.0
"""How long another copy of the same parcel on this disk may make no progress."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Copy:
    """The pieces that this node has: always the first ones."""

    def __init__(self, folder: Path, descriptor: int, pieces: Pieces, verifier: PieceVerifier | None) -> None:
        """Without a verifier, which has verified the first pieces, all are there."""
        self.folder = folder
        self.pieces = pieces
        self.have = verifier.verified if verifier else pieces.count
        self.is_stored = verifier is None
        """Whether the folder has its final name; a copy that was killed may have all pieces and not that."""
        self._verifier = verifier
        self._descriptor = descriptor
        """Of the folder. It stays valid when the folder gets its final name, and locks it until then."""
        self._grown = asyncio.Event()

    @property
    def is_complete(self) -> bool:
        """Return whether all pieces are there."""
        return self.have == self.pieces.count

    async def wait_for(self, index: int, seconds: float) -> bool:
        """Return whether a piece is there, after waiting for it at most so long."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._grow_beyond(index), seconds)
        return self.have > index

    async def _grow_beyond(self, index: int) -> None:
        while self.have <= index:
            await self._grown.wait()

    async def append(self, data: bytes) -> bool:
        """Store the next piece; return False if this is not its content."""
        if not await asyncio.to_thread(self._store, data):
            return False
        self.have += 1
        self._grown.set()
        self._grown = asyncio.Event()
        return True

    def open(self, name: str) -> BinaryIO:
        """Open one of the files for reading."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(name, flags, dir_fd=self._descriptor), "rb", buffering=0)

    def finish(self, base: Path, parcel: Mapping[str, Any]) -> None:
        """Verify what is on the disk as a whole, and give the folder its final name."""
        for name, size in self.pieces.files:
            if not size:
                make((self.folder / name).parent)
                (self.folder / name).touch(0o600)
        if content_of(self.folder, report_working) != parcel["digest"]:
            remove_tree(self.folder)
            raise Refusal(f"{parcel['name']} was damaged on the disk under {base}: it differs from what was received")
        kind, _, own = parcel["name"].partition("/")
        place = open_below(base, kind, create=True) / own
        with lock_base(base):
            if os.path.lexists(place):  # another node that shares the disk was quicker
                remove_tree(self.folder)
            else:
                self.folder.rename(place)
        self.is_stored = True
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _store(self, data: bytes) -> bool:
        if not (self._verifier and self._verifier.add(data)):
            return False
        view = memoryview(data)
        with explain_full_disk(self.folder.parent):
            for span in self.pieces.spans(self.have):
                path = self.folder / span.name
                make(path.parent)
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                try:
                    _write_at(file, view[: span.length], span.offset)
                finally:
                    os.close(file)
                view = view[span.length :]
        return True


def _write_at(file: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written


def obtain(base: Path, parcel: Mapping[str, Any], pieces: Pieces) -> Copy:
    """Return what this node has of a parcel; waits while another node or run copies it to the same disk."""
    stalled = _Stalled()
    while True:
        with contextlib.suppress(FileNotFoundError):  # a damaged one that another node removes at the same time
            if is_stored(base, parcel):
                place = base / parcel["name"]
                return Copy(place, os.open(place, FOLDER), pieces, None)
        folder = open_below(base, f"{PARTIAL}/{parcel['name'].replace('/', '-')}", create=True)
        if copy := _take(folder, pieces):
            return copy
        stalled.check(folder)
        time.sleep(PAUSE_SECONDS)


def _take(folder: Path, pieces: Pieces) -> Copy | None:
    """Lock a folder, and return the pieces that are in it; None if somebody else works on it."""
    descriptor = os.open(folder, FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # no locks on this file system: use a folder of one's own, which no other copy continues
        os.close(descriptor)
        folder = folder.parent.parent / f"{NEW}{secrets.token_hex(8)}"
        folder.mkdir(0o700)
        return Copy(folder, os.open(folder, FOLDER), pieces, PieceVerifier(pieces))
    # Between opening and locking it, another process may have completed it: then this is no longer its name.
    if not folder.exists() or folder.stat().st_ino != os.fstat(descriptor).st_ino:
        os.close(descriptor)
        return None
    verifier = _verify(folder, pieces)
    _trim(folder, pieces, verifier.verified)
    return Copy(folder, descriptor, pieces, verifier)


def _verify(folder: Path, pieces: Pieces) -> PieceVerifier:
    """Return a verifier that has verified the first pieces, as many as are there and intact."""
    verifier = PieceVerifier(pieces)
    for index in range(pieces.count):
        data = bytearray()
        for span in pieces.spans(index):
            with contextlib.suppress(FileNotFoundError), (folder / span.name).open("rb") as file:
                file.seek(span.offset)
                data += file.read(span.length)
        if not verifier.add(data):
            break
        report_working()
    return verifier


def _trim(folder: Path, pieces: Pieces, have: int) -> None:
    """Remove everything that does not belong to the first pieces."""
    left, sizes = pieces.start(have), {}
    for name, size in pieces.files:
        sizes[name] = min(size, left)
        left -= sizes[name]
    for name, about in list(files_in(folder)):
        if not sizes.get(name):
            remove_tree(folder / name.rstrip("/"))
        elif about.st_size > sizes[name]:
            os.truncate(folder / name, sizes[name])


class _Stalled:
    """Notices that another copy makes no progress."""

    def __init__(self) -> None:
        self._size, self._since, self._reported = -1, time.monotonic(), False

    def check(self, folder: Path) -> None:
        """Report that this node waits; raise Refusal if that has become useless."""
        if not self._reported:
            answer(kind="waiting")
            self._reported = True
        report_working()
        size = -1
        with contextlib.suppress(FileNotFoundError):
            size = sum(path.stat().st_blocks for path in folder.iterdir())
        if size != self._size:
            self._size, self._since = size, time.monotonic()
        elif time.monotonic() - self._since > STALLED_SECONDS:
            raise Refusal(
                f"another copy of the same files to {folder} has made no progress for {STALLED_SECONDS:g} s",
                "is another run stopped or stuck? end it, and try again",
            )
