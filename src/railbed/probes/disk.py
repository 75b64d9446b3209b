"""The disk under the training folder: space, inodes, read-only (`df`, `findmnt`).

Training creates the folder if it does not exist yet, so its nearest existing parent is examined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer, quote_path

COMMAND = r"""
while [ ! -d "$folder" ] && [ "$folder" != / ]; do folder=$(dirname -- "$folder"); done
printf '==> folder <==\n'; (cd -- "$folder" && pwd)
if [ -w "$folder" ]; then printf '==> writable <==\nyes\n'
else printf '==> writable <==\nno\n==> options <==\n'; findmnt -n -o OPTIONS -T "$folder" 2>/dev/null; fi
printf '==> space <==\n'; df -Pk -- "$folder"
printf '==> inodes <==\n'; df -Pi -- "$folder" 2>/dev/null
exit 0
"""
YES_OR_NO = re.compile(r"yes|no")
FOLDER = re.compile(r"/.*", re.DOTALL)
OPTIONS = re.compile(r"[^\s,]++(?:,[^,]++)*+")
HEADING = re.compile(r"Filesystem\b")
ROW = re.compile(
    r"(?P<filesystem>\S++(?:\s++\S++)*?)\s++(?P<total>\d++|-)\s++(?:-?\d++|-)\s++(?P<free>-?\d++|-)\s++(?:\d++%|-)"
    r"\s++(?P<mount>/.*)",
    re.ASCII | re.DOTALL,
)
"""df prints `-` for values that the file system does not provide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk(TextFacts):
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
    lines = Lines(text)
    parts = dict(lines.sections())
    space, inodes = _row(parts.get("space", parts.get(""))), _row(parts.get("inodes"))
    if space is None:
        lines.refuse("df printed no file system")
    counted = inodes if inodes and inodes.total > 0 else None
    writable = _only(parts.get("writable"), YES_OR_NO)
    options = _only(parts.get("options"), OPTIONS)
    return Disk(
        filesystem=space.filesystem,
        mount=space.mount,
        total_bytes=space.total * 1024,
        free_bytes=max(0, space.free) * 1024,
        folder=_only(parts.get("folder"), FOLDER),
        total_inodes=counted.total if counted else None,
        free_inodes=counted.free if counted else None,
        read_only=False if writable == "yes" else None if options is None else "ro" in options.split(","),
        writable=None if writable is None else writable == "yes",
        not_understood=lines.not_understood,
    )


def _row(lines: Lines | None) -> _Row | None:
    """Read the row below df's heading."""
    rows: list[re.Match[str]] = []
    for line in lines or ():
        if match := ROW.fullmatch(line.strip()):
            rows.append(match)
        elif lines and not HEADING.match(line):
            lines.unknown(line)
    if len(rows) > 1:
        raise ParseError("df: expected one row of numbers", line=rows[1].group())
    if not rows or "-" in (rows[0]["total"], rows[0]["free"]):
        return None
    return _Row(rows[0]["filesystem"], rows[0]["mount"], integer(rows[0]["total"]), integer(rows[0]["free"]))


def _only(lines: Lines | None, form: re.Pattern[str]) -> str | None:
    match = lines.first(form) if lines else None
    return match.group() if match else None


PROBE = Probe(
    name="disk",
    title="space, inodes and state of the disk under the training folder",
    command=command,
    parse=parse,
    facts=Disk,
    tool="df",
    package="coreutils",
)
