"""The disk under the training folder: space, inodes, read-only (`df`, `findmnt`).

Training creates the folder if it does not exist yet, so its nearest existing parent is examined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.text import integer, quote_path, sections

COMMAND = r"""
while [ ! -d "$folder" ] && [ "$folder" != / ]; do folder=$(dirname -- "$folder"); done
printf '==> folder <==\n'; (cd -- "$folder" && pwd)
if [ -w "$folder" ]; then printf '==> writable <==\nyes\n'
else printf '==> writable <==\nno\n==> options <==\n'; findmnt -n -o OPTIONS -T "$folder" 2>/dev/null; fi
printf '==> space <==\n'; df -Pk -- "$folder"
printf '==> inodes <==\n'; df -Pi -- "$folder" 2>/dev/null
exit 0
"""
ROW = re.compile(
    r"(?P<filesystem>\S++(?:\s++\S++)*?)\s++(?P<total>\d++|-)\s++(?:-?\d++|-)\s++(?P<free>-?\d++|-)\s++(?:\d++%|-)"
    r"\s++(?P<mount>/.*)",
    re.ASCII | re.DOTALL,
)
"""df prints `-` for values that the file system does not provide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system that holds the training folder."""

    filesystem: str
    mount: str
    total_bytes: int
    free_bytes: int
    """Available to ordinary accounts."""
    folder: str | None = None
    """The training folder, or its nearest parent that exists."""
    total_inodes: int | None = None
    """None if the file system does not count them (btrfs, some network file systems)."""
    free_inodes: int | None = None
    read_only: bool | None = None
    writable: bool | None = None
    """The account that we log in with may write there."""


@dataclass(frozen=True, slots=True)
class _Row:
    filesystem: str
    mount: str
    total: int
    free: int


def command(cluster: Cluster, _node: str) -> str:
    """Return the command for the cluster's training folder."""
    return f"folder={quote_path(cluster.training.workdir)}\n{COMMAND}"


def parse(text: str) -> Disk:
    """Read the sections; text without sections is a saved `df -Pk`."""
    parts = dict(sections(text))
    space = _row(parts.get("space", parts.get("", "")))
    if space is None:
        raise ParseError("df printed no file system", line=text.strip()[:80])
    inodes = _row(parts.get("inodes", ""))
    counted = inodes if inodes and inodes.total > 0 else None
    writable = _yes(parts.get("writable", ""))
    return Disk(
        filesystem=space.filesystem,
        mount=space.mount,
        total_bytes=space.total * 1024,
        free_bytes=max(0, space.free) * 1024,
        folder=parts.get("folder", "").strip() or None,
        total_inodes=counted.total if counted else None,
        free_inodes=counted.free if counted else None,
        read_only=False if writable else _read_only(parts.get("options", "")),
        writable=writable,
    )


def _row(text: str) -> _Row | None:
    """Read the row below df's heading."""
    rows = text.strip().splitlines()[1:]
    if not rows:
        return None
    match = ROW.fullmatch(rows[0].strip())
    if not match or len(rows) > 1:
        raise ParseError("df: expected one row of numbers", line=rows[-1])
    if "-" in (match["total"], match["free"]):
        return None
    return _Row(match["filesystem"], match["mount"], integer(match["total"]), integer(match["free"]))


def _read_only(options: str) -> bool | None:
    return "ro" in options.strip().split(",") if options.strip() else None


def _yes(answer: str) -> bool | None:
    match answer.strip():
        case "yes":
            return True
        case "no":
            return False
        case "":
            return None
        case other:
            raise ParseError("expected yes or no", line=other)


PROBE = Probe(
    name="disk",
    title="space, inodes and state of the disk under the training folder",
    command=command,
    parse=parse,
    facts=Disk,
    tool="df",
    package="coreutils",
)
