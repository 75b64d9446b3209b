"""Stops the run of a job: training saves its state first; the command returns when the job has ended."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from railbed.api.exits import INTERRUPTED, OK
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.progress import working
from railbed.cli.slurm.jobs import JobWatch, refuse_other_job, settle
from railbed.errors import DeviceError
from railbed.model.events import Stopped
from railbed.store import RunSummary, set_status, summary_of
from railbed.transport.queue import cancel_job, list_jobs, signal_job

SAVE_SECONDS = 300.0
"""How long training may take to save its state; then the job is cancelled without."""
END_SECONDS = 180.0
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
        if not await _until_ended(folder, number, END_SECONDS):
            raise JobRemains(
                f"Slurm did not end job {number} within {END_SECONDS:g} s", hint=f"`squeue --job {number}` shows it"
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
