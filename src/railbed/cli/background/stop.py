"""`railbed train --stop`: ends a run from any terminal.

The run of a job saves its state first; the command returns when the job has ended.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from railbed.api.exits import INTERRUPTED, OK
from railbed.api.kinds import TRAINING_IN_PROGRESS
from railbed.cli.background.runs import to_resume, training_run
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import JsonScreen
from railbed.cli.screens.progress import working
from railbed.cli.slurm.jobs import JobWatch, refuse_other_job, settle
from railbed.errors import DeviceError, UsageError
from railbed.model.events import Stopped
from railbed.store import RunSummary, ask_to_end, is_being_written, set_status, summary_of
from railbed.store.run import RECORDS, refuse_foreign_run
from railbed.store.submitted import was_submitted
from railbed.transport.queue import cancel_job, list_jobs, signal_job

END_SECONDS = 60.0
"""Ranks end within seconds; for a node that is cut off, the connection has to time out."""
GONE_SECONDS = 5.0
"""How long the lock of a process that is gone may stay."""
POLL_SECONDS = 0.1


class StillGoing(DeviceError):
    """A run did not end when it was stopped."""


def stop_run(name: str, *, as_json: bool) -> int:
    """End a run with all its ranks on all nodes, and return when that is done."""
    folder, before = training_run(name, TRAINING_IN_PROGRESS)
    return stop_in(folder, before, as_json=as_json)


def stop_in(folder: Path, before: RunSummary, *, as_json: bool) -> int:
    """End the run in a folder: its job, if it was submitted, else its process."""
    refuse_foreign_run(folder, f"railbed runs --stop {folder.name}")
    if was_submitted(folder):
        # Imported here because it loads Slurm's part of the transport, which few runs need.
        from railbed.cli.slurm.lookup import job_number

        if (number := job_number(folder)) is not None:
            return stop_job(folder, number, as_json=as_json)
        if before.status == "waiting":
            set_status(folder, "stopped", INTERRUPTED)
    if before.status == "running":
        process = _ask(folder, before)
        with working(f"waiting for {before.id} to end its ranks"):
            run_until_ended(_await_end(folder, before, process))
    after = summary_of(folder)
    if as_json:
        JsonScreen().show(Stopped(subject=after.id, was=before.status, status=after.status, exit=after.exit))
    else:
        sys.stdout.write(f"{_sentence(before, after)}\n")
        if after.status != "done" and after.verb == "train":
            sys.stdout.write(f"  `{to_resume(after)}` continues from its last intact checkpoint\n")
    return OK


def _ask(folder: Path, run: RunSummary) -> int | None:
    """Ask the process of a run to end, and return its number; None if the process that `run.json` names is not its."""
    if run.process is None:
        raise UsageError(
            f"{run.id} has no process number in its run.json", hint="end it in the terminal it was started in"
        )
    if not ask_to_end(run.process, folder / RECORDS):
        return None
    sys.stderr.write(f"stopping {run.id} …\n")
    return run.process.pid


async def _await_end(folder: Path, run: RunSummary, process: int | None) -> None:
    try:
        async with asyncio.timeout(GONE_SECONDS if process is None else END_SECONDS):
            while is_being_written(folder):  # noqa: ASYNC110  (the end of another process is no event of ours)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        if process is None:
            raise UsageError(
                f"{run.id} is written by another process than the one that its run.json names: nothing was stopped",
                hint=f"`fuser -v {folder / RECORDS}` shows what writes it",
            ) from None
        raise StillGoing(
            f"{run.id} did not end within {END_SECONDS:g} s",
            hint=f"`kill -9 {process}` ends it at once, and its ranks end within seconds",
        ) from None


def _sentence(before: RunSummary, after: RunSummary) -> str:
    if before.status == "running" and after.status == "stopped":
        return f"{after.id} was stopped, and all its ranks have ended"
    if before.status == "waiting":
        return f"{after.id} is not in the queue: Slurm lists no job of it"
    how = {
        "done": "was already done",
        "failed": "had failed",
        "stopped": "had been stopped",
        "died": "had been killed, and its ranks with it",
    }
    return f"{after.id} {how.get(after.status, after.status)}: there was nothing to stop"


SAVE_SECONDS = 300.0
"""How long training may take to save its state; then the job is cancelled without."""
JOB_END_SECONDS = 180.0
"""How long Slurm may take to end the processes of a job: a node that is dead has to time out."""


class JobRemains(DeviceError):
    """Slurm did not end a job."""


def stop_job(folder: Path, number: int, *, as_json: bool) -> int:
    """End the job of a run, and return when Slurm has ended it."""
    before = summary_of(folder)
    with working(f"ending job {number}", shown=not as_json):
        was_live = run_until_ended(end_job(folder, number, before))
    after = summary_of(folder)
    if as_json:
        JsonScreen().show(Stopped(subject=after.id, was=before.status, status=after.status, exit=after.exit))
    else:
        what = f"job {number} of {after.id} has ended" if was_live else f"job {number} of {after.id} had ended already"
        sys.stdout.write(f"{what}\n")
    return OK


async def end_job(folder: Path, number: int, before: RunSummary) -> bool:
    """End the job; return whether it was still there."""
    queued = (await list_jobs({number})).get(number)
    refuse_other_job(queued, folder)
    if queued is None or not queued.is_live:
        await settle(folder, before, number, queued)
        return False
    saved = False
    if queued.state == "RUNNING" and before.verb == "train" and before.status == "running":
        await signal_job(number, "USR2")
        saved = await _until_ended(folder, number, SAVE_SECONDS)
    if not saved:
        await cancel_job(number)
        if not await _until_ended(folder, number, JOB_END_SECONDS):
            raise JobRemains(
                f"Slurm did not end job {number} within {JOB_END_SECONDS:g} s", hint=f"`squeue --job {number}` shows it"
            )
    if summary_of(folder).status in ("waiting", "died"):
        set_status(folder, "stopped", INTERRUPTED)
    return True


async def _until_ended(folder: Path, number: int, seconds: float) -> bool:
    """Wait for the end of a job, and return whether it came in time."""
    watch = JobWatch(folder, number)
    with watch.watching():
        try:
            async with asyncio.timeout(seconds):
                await watch.ended.wait()
        except TimeoutError:
            return False
    if watch.trouble:
        raise watch.trouble
    return True
