"""Programs may lock as much memory as RDMA needs.

What
----
The limit of locked memory (`ulimit -l`) of a session over SSH, which training started over SSH gets, is unlimited; in a
Slurm job, that of a step of the job. An account with the capability CAP_IPC_LOCK, such as root, is not bound by the
limit.

Why
---
RDMA pins every buffer it sends from. Under the usual 64 KiB or 8 MiB the first queue or gradient buffer cannot be
registered: "Cannot allocate memory", or a silent fall-back to TCP, which is worse.

Fix
---
In a file in /etc/security/limits.d: `* - memlock unlimited` and `root - memlock unlimited` (the star does not include
root), then log in again. sshd needs `UsePAM yes`. Services: `LimitMEMLOCK=infinity`; containers: `--ulimit memlock=-1`.
Slurm gives a job the limits of the shell that submitted it, unless slurm.conf has
`PropagateResourceLimitsExcept=MEMLOCK`: then slurmd's own limit applies, `LimitMEMLOCK=infinity` in its service.

Source
------
limits.conf(5); slurm.conf(5), PropagateResourceLimits; getrlimit(2), RLIMIT_MEMLOCK; Linux `ib_umem_get`; NCCL user
guide, troubleshooting (memory lock limit).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import no_rdma_on_node
from railbed.model.fix import FileStep, Fix, Persistence
from railbed.probes import limits
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "unlimited locked memory"
FILE = "/etc/security/limits.d/90-railbed-memlock.conf"
LINES = "* - memlock unlimited\nroot - memlock unlimited\n"
IN_SLURM = (
    "the administrator sets `PropagateResourceLimitsExcept=MEMLOCK` in slurm.conf, and `LimitMEMLOCK=infinity` in "
    "slurmd's service; or submit the job from a shell with `ulimit -l unlimited`"
)


def judge(node: NodeView) -> Iterator[Judgement]:
    """Judge the soft limit, which is the one that applies to programs."""
    facts = node.read(limits.PROBE)
    soft = facts.locked_memory.soft
    if soft == "unlimited":
        yield ok(expected=EXPECTED, observed="unlimited")
    elif facts.may_lock_any:
        yield ok(expected=EXPECTED, observed=f"{_size(soft)}, which does not apply to this account")
    else:
        wrong = fail if soft < limits.RDMA_LEAST_BYTES else warn
        remedy, fix = (IN_SLURM, None) if node.is_in_slurm_job else ("", _fix(node))
        yield wrong(expected=EXPECTED, observed=_size(soft), remedy=remedy, fix=fix)


def _fix(node: NodeView) -> Fix:
    return Fix(
        device=node.name,
        apply=(FileStep(path=FILE, content=LINES),),
        undo=(),
        persistence=Persistence.KEPT,
        note="log in again",
    )


def _size(count: int) -> str:
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


RULE = Rule(
    name="memlock",
    title="enough memory can be locked for RDMA",
    scope="node",
    needs=(limits.PROBE,),
    judge=judge,
    unless=no_rdma_on_node,
    doc=__doc__,
    rank=40,
)
