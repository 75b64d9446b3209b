"""Another user of this machine: runs code with that user's rights instead of those of the tests."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def as_stranger(script: str, *arguments: str | Path) -> str:
    """Run a shell script as the user nobody; the test is skipped if that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("being another user needs root")
    return run_as("nobody", script, *arguments)


@contextmanager
def open_folder(mode: int = 0o1777) -> Iterator[Path]:
    """Lend a folder that everybody can write to, as /tmp is; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="railbed-test-"))
    folder.chmod(mode)
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder)


@contextmanager
def local_user() -> Iterator[str]:
    """Create an account on this machine, and remove it; the test is skipped if that is not possible."""
    if os.geteuid() != 0 or not shutil.which("useradd"):
        pytest.skip("creating another user needs root and useradd")
    name = f"railbed-{os.getpid()}-{secrets.token_hex(2)}"
    # Another test may be changing the list of accounts.
    _insist("useradd", "--no-create-home", "--shell", "/bin/sh", name)
    try:
        yield name
    finally:
        # Processes of this user that were killed a moment ago may still be there.
        _insist("userdel", name)


def _insist(*command: str) -> None:
    """Run a command until it succeeds."""
    deadline = time.monotonic() + 60
    while (done := subprocess.run(command, check=False, capture_output=True, timeout=60)).returncode:
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.5)


def as_user(name: str) -> list[str]:
    """Return the words before a command of a user, who may also read the Python of the tests."""
    reads = "+dac_read_search"
    return ["setpriv", f"--reuid={name}", "--clear-groups", f"--inh-caps={reads}", f"--ambient-caps={reads}"]


def start_as(name: str, script: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """Start a shell script as a user of this machine; its standard input and output are pipes."""
    about = pwd.getpwnam(name)
    return subprocess.Popen(
        ["/bin/sh", "-ec", script, "sh", *map(str, arguments)],
        user=about.pw_uid,
        group=about.pw_gid,
        extra_groups=[],
        umask=0o022,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_as(name: str, script: str, *arguments: str | Path) -> str:
    """Run a shell script as a user of this machine, and return what it printed."""
    with start_as(name, script, *arguments) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out
