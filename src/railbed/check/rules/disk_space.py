"""The training folder is writable and has enough space.

What
----
The disk under `training.workdir` has `training.min_disk_gb` free and inodes left, is mounted for writing, and our
account may write to it. A folder that does not exist yet is judged by its nearest existing parent.

Why
---
A checkpoint that does not fit ends the run, and all training since the last one is lost. A disk that the kernel
made read-only after an error does the same, on a node that looks healthy otherwise.

Fix
---
Remove old checkpoints, or set `training.workdir` to a larger disk. Read-only: look in `dmesg` for the error, repair the
file system (`fsck`) and mount it again. Not writable: `chown` the folder to the account that trains.

Source
------
df(1), findmnt(8); ext4(5), `errors=remount-ro`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.model.text import size
from railbed.probes import disk
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

GB = 10**9
LEAST_INODES = 10_000


def judge(node: NodeView) -> Iterator[Judgement]:
    """Judge what would prevent a checkpoint, the worst first."""
    training = node.site.cluster.training
    expected = f"{training.min_disk_gb:g} GB free for {training.workdir}"
    facts = node.read(disk.PROBE)
    obstacle = _obstacle(facts)
    if obstacle:
        yield fail(expected=expected, observed=obstacle)
    elif facts.free_bytes < training.min_disk_gb * GB:
        yield fail(expected=expected, observed=_free(facts))
    else:
        yield ok(expected=expected, observed=_free(facts))


def _obstacle(facts: disk.Disk) -> str:
    if facts.read_only:
        return f"{facts.mount} is mounted read-only"
    if facts.writable is False:
        return f"{facts.folder} is not writable for this account"
    if facts.free_inodes is not None and facts.free_inodes < LEAST_INODES:
        return f"{facts.free_inodes} inodes left on {facts.mount}"
    return ""


def _free(facts: disk.Disk) -> str:
    return f"{size(facts.free_bytes)} free on {facts.mount}"


RULE = Rule(
    name="disk_space",
    title="enough disk space for checkpoints",
    scope="node",
    needs=(disk.PROBE,),
    judge=judge,
    doc=__doc__,
    essential=True,
    at_restart=True,
)
