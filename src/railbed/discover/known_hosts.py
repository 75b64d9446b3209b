"""Adds confirmed host keys to a known_hosts file, in OpenSSH's form, and loses no line of another program."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import hmac
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from railbed.errors import UsageError, os_reason
from railbed.model.private import for_us_alone, make_private
from railbed.store import resolve_links, write_atomically
from railbed.store.cache import cache_folder, make_folder

HASHED = b"|1|"
ASK_SECONDS = 3.0
ATTEMPTS = 100


async def are_hashed(file: Path, host: str) -> bool:
    """Whether names of hosts are hashed: as in the last line of the file, or else as OpenSSH's configuration wants."""
    lines = [line for line in _content(file).splitlines() if line.strip() and not line.startswith((b"#", b"@"))]
    if lines:
        return lines[-1].startswith(HASHED)
    try:
        process = await asyncio.create_subprocess_exec(
            *("ssh", "-G", "--", host),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(ASK_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    return b"hashknownhosts yes" in printed.lower().splitlines()


def add_host_keys(file: Path, keys: Iterable[tuple[str, str]], *, hashed: bool) -> None:
    """Add the keys of hosts, each with its name: after a crash the file is either old or new."""
    lines = [f"{_hash(name) if hashed else name} {key}\n" for name, key in keys]
    try:
        make_private(file.parent)
        target = resolve_links(file)
        with _alone():
            for _ in range(ATTEMPTS):
                if _append(target, "".join(lines).encode()):
                    return
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {os_reason(error)}", hint="it holds the host keys that you confirm"
        ) from error
    raise UsageError(f"{file} changes all the time", hint="which program writes to it?")


def _append(file: Path, lines: bytes) -> bool:
    """Replace the file by itself and the lines; return False if another program has changed it meanwhile."""
    before = _identity(file)
    content = _content(file)
    gap = b"\n" if content and not content.endswith(b"\n") else b""
    if _identity(file) != before:
        return False
    write_atomically(file, content + gap + lines, mode=before[3] if before else 0o600)
    return True


def _identity(file: Path) -> tuple[int, int, int, int] | None:
    try:
        about = file.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns, stat.S_IMODE(about.st_mode)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other runs of railbed out, with a lock that nobody else can hold."""
    make_folder("locks")
    with open(cache_folder("locks") / "known_hosts.lock", "ab", opener=for_us_alone) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _hash(name: str) -> str:
    """Return a name as OpenSSH hashes it."""
    salt = secrets.token_bytes(20)
    digest = hmac.digest(salt, name.encode(), hashlib.sha1)
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
