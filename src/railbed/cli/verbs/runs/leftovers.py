"""What `railbed runs --clean` would remove here and on the nodes, and what stays and why.

Runs stay whose Slurm job runs or will, or if Slurm cannot be asked.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from railbed.errors import DeviceError, RailbedError
from railbed.launch.files.client import FolderEntry, FolderListing
from railbed.store import RunSummary, runs_folder
from railbed.store.submitted import SCRIPT, job_of
from railbed.transport.queue import QueuedJob

SHARED = ("code", "tokens", "models", "partial", "compiled")
"""Files that runs share; they are removed with the last run on a node, and sent again when needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRun:
    """A run in this folder."""

    summary: RunSummary
    folder: Path
    size: int
    job: str = ""
    """Its name on the nodes; empty if it left nothing there."""
    nodes: Sequence[str] = ()
    is_foreign: bool = False
    """It may be another user's: its nodes are not reached."""
    stays: str = ""
    """Why it must not be removed; empty if it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnNode:
    """Files on a node."""

    node: str
    base: str
    entry: FolderEntry

    @property
    def job(self) -> str:
        """The run that they belong to; empty for shared files."""
        kind, _, rest = self.entry.path.partition("/")
        return "" if kind in SHARED else rest.partition("/")[0]

    @property
    def where(self) -> str:
        """Node and path."""
        return f"{self.node}:{self.base}/{self.entry.path}"


@dataclass(slots=True, kw_only=True)
class CleanUpPlan:
    """What is removed and what stays."""

    here: list[LocalRun] = field(default_factory=list)
    there: list[OnNode] = field(default_factory=list)
    retained: list[tuple[str, str]] = field(default_factory=list)
    """What stays, with the reason."""

    @property
    def size(self) -> int:
        """Return the bytes that would be freed."""
        return sum(run.size for run in self.here) + sum(leftover.entry.size for leftover in self.there)

    def paths(self) -> dict[str, list[str]]:
        """Return the paths to remove, by node."""
        paths: dict[str, list[str]] = {}
        for leftover in self.there:
            paths.setdefault(leftover.node, []).append(leftover.entry.path)
        return paths


def make_plan(
    runs: Sequence[LocalRun], listings: Mapping[str, FolderListing | DeviceError], *, named: Collection[str], keep: int
) -> CleanUpPlan:
    """Decide what to remove. `runs` are all runs here, the newest first; `named` limits it to some runs or jobs."""
    plan = CleanUpPlan()
    going: list[LocalRun] = []
    staying: list[LocalRun] = []
    for place, run in enumerate(runs):
        wanted = run.summary.id in named if named else place >= keep
        if run.stays:
            plan.retained.append((run.summary.id, run.stays))
            staying.append(run)
        else:
            (going if wanted else staying).append(run)
    jobs = {run.job for run in going if run.job} - {run.job for run in staying} | set(named)
    for leftover in _leftovers(listings):
        _decide(plan, leftover, jobs, {run.job for run in runs}, everything=not named)
    _keep_shared(plan, listings)
    for run in going:
        _decide_here(plan, run, listings, by_name=run.summary.id in named)
    return plan


def _leftovers(listings: Mapping[str, FolderListing | DeviceError]) -> Iterator[OnNode]:
    """Yield the files on the nodes; those on a shared disk once."""
    listed: set[tuple[str, str]] = set()
    for node, listing in listings.items():
        if isinstance(listing, DeviceError):
            continue
        for entry in listing.entries:
            if (listing.disk, entry.path) not in listed:
                listed.add((listing.disk, entry.path))
                yield OnNode(node=node, base=listing.base, entry=entry)


def _decide(
    plan: CleanUpPlan, leftover: OnNode, jobs: Collection[str], known: Collection[str], *, everything: bool
) -> None:
    is_bench = leftover.entry.path.startswith("bench/")
    if leftover.entry.busy:
        plan.retained.append((leftover.where, "it is in use" if leftover.job else "it is in use, or was a moment ago"))
    elif leftover.job in jobs or (everything and (is_bench or not leftover.job)):
        plan.there.append(leftover)
    elif everything and leftover.job not in known:
        plan.retained.append(
            (
                leftover.where,
                f"it belongs to no run in this folder; `railbed runs --clean {leftover.job} -c FILE` removes it",
            )
        )


def _keep_shared(plan: CleanUpPlan, listings: Mapping[str, FolderListing | DeviceError]) -> None:
    """Keep shared files if a run stays: they are needed to export its weights."""
    gone = {(leftover.node, leftover.entry.path) for leftover in plan.there}
    disks = {node: listing.disk for node, listing in listings.items() if isinstance(listing, FolderListing)}
    used = {
        disks[node]
        for node, listing in listings.items()
        if isinstance(listing, FolderListing)
        for entry in listing.entries
        if entry.path.startswith("runs/")
        and not any((other, entry.path) in gone for other in disks if disks[other] == disks[node])
    }
    plan.there = [leftover for leftover in plan.there if leftover.job or disks[leftover.node] not in used]


def _decide_here(
    plan: CleanUpPlan, run: LocalRun, listings: Mapping[str, FolderListing | DeviceError], *, by_name: bool
) -> None:
    """Remove a run here only with its files on nodes: they could not be attributed without it."""
    silent = [node for node in run.nodes if isinstance(listings.get(node), DeviceError)]
    if silent and not by_name:
        why = f"{silent[0]} cannot be reached; `railbed runs --clean {run.summary.id}` removes it here anyway"
        plan.retained.append((run.summary.id, why))
    else:
        plan.here.append(run)


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk; links are not followed."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(at, name).lstat().st_blocks * 512
            except FileNotFoundError:
                continue
    return total


ENDED = ("done", "failed")
"""States that the run of a job has for good. Slurm may have put one that was stopped back into the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClaim:
    """Why a run stays for its Slurm job."""

    reason: str
    remedy: str
    """What to do if it is to be removed."""
    is_certain: bool = True
    """Whether Slurm lists the job; else it could not be asked."""


def job_claims(runs: Sequence[RunSummary]) -> dict[str, JobClaim]:
    """Ask Slurm which of these runs have a job that runs or will, by name; it is not asked if none was submitted."""
    submitted = [run for run in runs if (runs_folder() / run.id / SCRIPT).exists() or job_of(runs_folder() / run.id)]
    if not submitted:
        return {}
    # Imported here because most folders have no jobs.
    from railbed.cli.run.signals import run_until_ended
    from railbed.transport.queue import own_jobs

    try:
        live = [job for job in run_until_ended(own_jobs()).values() if job.is_live]
    except RailbedError as error:
        return {run.id: _unknown(run, error) for run in submitted if run.status not in ENDED}
    by_number = {job.id: job for job in live}
    by_place = {place: job for job in live if job.folder and (place := _place(Path(job.folder)))}
    claims = {}
    for run in submitted:
        # Either is reason enough to keep a run: a folder may have another path here, and a number may be missing.
        named, place = job_of(runs_folder() / run.id), _place(runs_folder() / run.id)
        job = by_place.get(place) if place else None
        if job := job or (by_number.get(named.number) if named else None):
            claims[run.id] = _claim_for(run.id, job)
    return claims


def _unknown(run: RunSummary, error: RailbedError) -> JobClaim:
    return JobClaim(
        reason=f"Slurm cannot be asked whether its job has ended: {error.message}",
        remedy=f"repeat this where Slurm answers, or remove {runs_folder() / run.id} yourself",
        is_certain=False,
    )


def _claim_for(run: str, job: QueuedJob) -> JobClaim:
    return JobClaim(reason=f"its job {job.id} is {job.in_words}", remedy=f"`railbed runs --stop {run}` ends it")


def _place(folder: Path) -> tuple[int, int] | None:
    """Return what identifies a folder, whatever its path."""
    with suppress(OSError):
        about = folder.stat()
        return about.st_dev, about.st_ino
    return None
