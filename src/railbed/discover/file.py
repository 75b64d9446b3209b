"""The file that `discover` writes: a new one, or an existing one with its comments."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from railbed import clusterfile
from railbed.errors import UsageError, os_reason
from railbed.model.cluster import Cluster
from railbed.store import resolve_links, write_atomically
from railbed.yamlfile.read import BYTE_ORDER_MARK


def file_exists(file: Path, *, typed: bool) -> bool:
    """Whether there is a cluster file, which the user has named or which is in this folder."""
    if not typed and file.is_symlink() and file.lstat().st_uid not in (0, os.geteuid()):
        # As in a folder that others can write to: it would decide which file is written.
        raise UsageError(f"{file} is a link of another account, and is not followed", hint="name a file with -c")
    try:
        return resolve_links(file).exists()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        gone = isinstance(error, FileNotFoundError)
        hint = "does the current folder still exist?" if gone else "give another file with -c"
        raise UsageError(f"{file} cannot be found: {reason}", hint=hint) from error


def write_cluster_file(file: Path, cluster: Cluster, existing: Cluster | None, *, write: bool) -> bool:
    """Write a new file, or an existing one if requested; return whether it was written."""
    if existing == cluster or (existing and not write):
        return False
    try:
        target = resolve_links(file)
        if existing:
            mode = target.stat().st_mode
            write_atomically(target, _rewritten(target.read_bytes(), cluster, name=str(file)))
            target.chmod(stat.S_IMODE(mode))
        else:
            write_atomically(target, clusterfile.dumps(cluster).encode("utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {os_reason(error)}", hint="give another file with -c") from error
    return True


def _rewritten(data: bytes, cluster: Cluster, *, name: str) -> bytes:
    """Return the changed file, with its original byte order mark and line ends."""
    text = data.decode("utf-8")
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    carriage_returns = 0 < text.count("\n") == text.count("\r\n")
    changed = clusterfile.rewrite(text.replace("\r\n", "\n") if carriage_returns else text, cluster, name=name)
    return (mark + (changed.replace("\n", "\r\n") if carriage_returns else changed)).encode("utf-8")
