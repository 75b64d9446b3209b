"""Slurm's queue: jobs are submitted, listed, signalled, cancelled and put back into it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from railbed.errors import ParseError, RailbedError, Unreachable, UsageError
from railbed.transport.slurm import SlurmSilent, ask_slurm

FORMAT = "%A|%T|%N|%r|%Z"
"""Of `squeue`: number, state, nodes, reason, folder."""
SIZES = "%P|%F|%s"
"""Of `sinfo`: partition, nodes as allocated/idle/other/total, and the sizes that a job may have there."""
SIZE = re.compile(
    r"(?P<name>[^|*]{1,128})(?P<default>\*?)\|\d{1,9}/\d{1,9}/\d{1,9}/(?P<total>\d{1,9})\|(?:\d{1,9}-)?(?P<most>\d{1,9}|infinite)",
    re.ASCII,
)
MOST_NODES, MOST_PARTITIONS = 10**9, 10_000
NO_REASON = ("", "None")
PENDING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "CONFIGURING")
ACTIVE = ("RUNNING", "COMPLETING", "STAGE_OUT", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING")
NUMBER = re.compile(r"(\d{1,10})(?:;.*)?")
DETAIL = re.compile(r"(?:^| )(JobState|Reason|Restarts|BatchHost|Requeue|ExitCode)=(\S*)")
KILL_WAIT = re.compile(r"^KillWait\s*+= (\d{1,6}) sec", re.MULTILINE)
KILL_WAIT_SECONDS = 30.0
BATCH_FAILED = "Batch job submission failed: "
MOST_JOBS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job as Slurm lists it; for some minutes also one that has ended."""

    id: int
    state: str
    nodes: str = ""
    reason: str = ""
    """Why it waits or ended; empty if Slurm gives none."""
    folder: str = ""
    """Where its script runs, which is the folder of the run that was submitted."""

    @property
    def is_waiting(self) -> bool:
        """Whether it is in the queue and will start."""
        return self.state in PENDING

    @property
    def is_live(self) -> bool:
        """Whether it runs, or will."""
        return self.is_waiting or self.state in ACTIVE

    @property
    def in_words(self) -> str:
        """Return its state as people read it: `pending (Resources)`."""
        reason = f" ({self.reason})" if self.reason and self.state != "RUNNING" else ""
        return f"{self.state.lower().replace('_', ' ')}{reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """What Slurm reports about one job."""

    state: str
    reason: str
    restarts: int
    batch_host: str
    may_requeue: bool

    def is_requeued(self, restarts: int) -> bool:
        """Whether it is back in the queue after so many restarts, or will be once its processes have ended."""
        return self.state in PENDING or self.restarts > restarts


async def submit_script(script: Path) -> int:
    """Submit a batch script from its own folder, where Slurm then writes the job's output; return the job's number."""
    try:
        printed = await ask_slurm("sbatch", "--parsable", script.name, folder=script.parent)
    except Unreachable as error:
        raise refusal(error) from None
    return parse_number(printed)


def refusal(error: Unreachable) -> RailbedError:
    """Return a UsageError if Slurm refused what the user asked for; the error itself if Slurm did not answer."""
    if isinstance(error, SlurmSilent) or not error.message.startswith("Slurm: "):
        return error
    reason = error.message.removeprefix("Slurm: ").removeprefix(BATCH_FAILED)
    return UsageError(f"Slurm: {reason}", hint="`sinfo` lists partitions and their limits")


def parse_number(printed: str) -> int:
    """Return the number of a job from `sbatch --parsable`, which may add the name of a cluster."""
    lines = printed.strip().splitlines()
    match = NUMBER.fullmatch(lines[-1]) if lines else None
    if match is None:
        raise ParseError("sbatch did not print the number of a job", line=lines[-1] if lines else "")
    return int(match[1])


async def largest_jobs() -> dict[str, int]:
    """Return how many nodes a job may have in each partition, by name; the default partition also under ''."""
    return parse_sizes(await ask_slurm("sinfo", "--noheader", "--summarize", f"--format={SIZES}"))


def parse_sizes(printed: str) -> dict[str, int]:
    """Return the sizes in a list of `sinfo`; lines of another form are ignored."""
    sizes: dict[str, int] = {}
    for line in printed.splitlines()[:MOST_PARTITIONS]:
        if match := SIZE.fullmatch(line.strip()):
            size = min(int(match["total"]), int(match["most"]) if match["most"].isdigit() else MOST_NODES)
            sizes[match["name"]] = size
            if match["default"]:
                sizes[""] = size
    return sizes


async def list_jobs(jobs: Collection[int]) -> dict[int, QueuedJob]:
    """Return those of our jobs that Slurm still lists."""
    if not jobs:
        return {}
    listed = await own_jobs()
    return {number: listed[number] for number in jobs if number in listed}


async def own_jobs() -> dict[int, QueuedJob]:
    """Return all jobs of this user that Slurm still lists."""
    return parse_queue(await ask_slurm("squeue", "--noheader", "--me", "--states=all", f"--format={FORMAT}"))


def parse_queue(printed: str) -> dict[int, QueuedJob]:
    """Return the jobs in a list of `squeue`, by number; lines of another form are ignored."""
    jobs: dict[int, QueuedJob] = {}
    for line in printed.splitlines()[:MOST_JOBS]:
        number, _, rest = line.partition("|")
        state, _, rest = rest.partition("|")
        nodes, _, rest = rest.partition("|")
        reason, _, folder = rest.partition("|")
        if NUMBER.fullmatch(number) and state:
            shown = "" if reason.strip() in NO_REASON else reason.strip().strip("()")
            jobs[int(number)] = QueuedJob(id=int(number), state=state, nodes=nodes, reason=shown, folder=folder)
    return jobs


async def read_details(job: int) -> JobDetails:
    """Return what Slurm reports about a job that runs or has just ended."""
    return parse_details(await ask_slurm("scontrol", "--oneliner", "show", "job", str(job)))


def parse_details(printed: str) -> JobDetails:
    """Return the details of a job from `scontrol --oneliner show job`.

    Its line ends with paths that the user chose, and could repeat any key: the first value of a key counts.
    """
    values: dict[str, str] = {}
    for name, value in DETAIL.findall(printed[: 1 << 16]):
        values.setdefault(name, value)
    if "JobState" not in values:
        raise ParseError("scontrol did not print a job", line=printed.partition("\n")[0])
    restarts = values.get("Restarts", "")
    return JobDetails(
        state=values["JobState"],
        reason="" if values.get("Reason", "") in NO_REASON else values["Reason"],
        restarts=int(restarts) if restarts.isascii() and restarts.isdigit() and len(restarts) < 10 else 0,
        batch_host=values.get("BatchHost", ""),
        may_requeue=values.get("Requeue") == "1",
    )


async def signal_job(job: int, name: str) -> None:
    """Send a signal to the batch script of a job, and to nothing else."""
    await ask_slurm("scancel", "--batch", f"--signal={name}", str(job))


async def cancel_job(job: int) -> None:
    """Cancel a job, whether it waits or runs."""
    await ask_slurm("scancel", str(job))


async def requeue_job(job: int) -> None:
    """Put a running job back into the queue."""
    await ask_slurm("scontrol", "requeue", str(job))


async def kill_wait() -> float:
    """Return the seconds that Slurm leaves processes between SIGTERM and SIGKILL; its default if that is unknown."""
    try:
        return parse_kill_wait(await ask_slurm("scontrol", "show", "config"))
    except RailbedError:
        return KILL_WAIT_SECONDS


def parse_kill_wait(printed: str) -> float:
    """Return KillWait from Slurm's settings."""
    match = KILL_WAIT.search(printed)
    return float(match[1]) if match else KILL_WAIT_SECONDS
