"""Reasons for which a job stays in the queue until a person changes something: a hold, more nodes than there are."""

from __future__ import annotations

from railbed.transport.queue import QueuedJob

PARTITION = "it requests more than its partition has or allows"
LIMITED = "it requests more than {} allows for one job"
REFUSED = "its partition does not accept its {}"
HELD = "it is held, and `scontrol release {}` releases it"
OBSTACLES = {
    "PartitionConfig": PARTITION,
    "PartitionNodeLimit": PARTITION,
    "PartitionTimeLimit": PARTITION,
    "PartitionDown": "its partition starts no jobs",
    "PartitionInactive": "its partition starts no jobs",
    "BadConstraints": "no node has what it requests",
    "AssocMaxNodePerJobLimit": LIMITED.format("its account"),
    "AssocMaxWallDurationPerJobLimit": LIMITED.format("its account"),
    "QOSMaxNodePerJobLimit": LIMITED.format("its QOS"),
    "QOSMaxWallDurationPerJobLimit": LIMITED.format("its QOS"),
    "AccountNotAllowed": REFUSED.format("account"),
    "QOSNotAllowed": REFUSED.format("QOS"),
    "InvalidAccount": "its account is invalid",
    "InvalidQOS": "its QOS is invalid",
    "DependencyNeverSatisfied": "a job that it depends on did not end as required",
    "JobHeldUser": HELD,
    "JobHeldAdmin": "an administrator holds it",
    "JobHoldMaxRequeue": HELD,
    "launch failed requeued held": HELD,
}

NEVER = (
    *(name for name in OBSTACLES if name.startswith(("Assoc", "QOS", "Invalid")) or name.endswith("NotAllowed")),
    "BadConstraints",
    "DependencyNeverSatisfied",
    "PartitionTimeLimit",
)
"""Reasons in the request itself: another request is needed. Slurm also gives the others while nodes are down."""


def never_starts(job: QueuedJob | None) -> bool:
    """Whether a job in the queue can never start as it was requested."""
    return job is not None and job.is_waiting and job.reason in NEVER


def obstacle(job: QueuedJob | None) -> str:
    """Return a sentence about a job that does not start by itself; empty for any other."""
    if job is None or not job.is_waiting or job.reason not in OBSTACLES:
        return ""
    return f"job {job.id} does not start: {OBSTACLES[job.reason].format(job.id)} (Slurm: {job.reason})"
