"""Another user of this machine: runs code with that user's rights instead of those of the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def as_stranger(script: str, *arguments: str | Path) -> str:
    """Run a shell script as the user nobody; the test is skipped if that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("being another user needs root")
    about = pwd.getpwnam("nobody")
    done = subprocess.run(
        ["/bin/sh", "-ec", script, "sh", *map(str, arguments)],
        user=about.pw_uid,
        group=about.pw_gid,
        extra_groups=[],
        umask=0o022,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def open_folder(mode: int = 0o1777) -> Iterator[Path]:
    """Lend a folder that everybody can write to, as /tmp is; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="railbed-test-"))
    folder.chmod(mode)
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder)
