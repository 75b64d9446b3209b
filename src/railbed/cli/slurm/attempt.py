"""A start of a submitted training: the run that it begins or continues, the signals of Slurm, and how it leaves.

USR1    the time limit is near                 save, requeue
USR2    a person stops the run                 save, end
TERM    Slurm ends or requeues the job         save what fits into Slurm's KillWait, end

Earlier starts of the job recorded the recipe and the newest state, and whether they achieved anything.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from railbed.api.exits import INTERRUPTED, OK
from railbed.api.running import LeftEarly
from railbed.api.stream import RecordStream
from railbed.cli.background.runs import to_resume
from railbed.cli.run.perform import show
from railbed.cli.screens.base import Screen
from railbed.cli.slurm.watchdogs import take_reason, watchdogs
from railbed.errors import DeviceError, RailbedError, UsageError
from railbed.fleet import Fleet
from railbed.launch.supervise import GaveUp
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.store import Status, read_records, run_to_continue, set_status, summary_of
from railbed.train import recipes
from railbed.train.departure import Departure
from railbed.train.recipe import Recipe
from railbed.train.run import TrainRequest
from railbed.train.state.resume import EarlierState
from railbed.transport.queue import kill_wait, read_details, requeue_job
from railbed.transport.slurm import RUNNING

READ = (events.TrainingStarted, events.CheckpointSaved, events.CheckpointCopied, events.Resuming)


@dataclass(slots=True)
class History:
    """The earlier starts of a job."""

    started: events.TrainingStarted | None = None
    """How the first training began; None if none has."""
    step: int = 0
    nodes: tuple[str, ...] = ()
    """The newest step whose state was saved, and the nodes that have it; none if the run's folder has it."""
    fruitless: int = 0
    """Starts in a row, up to now, that copied no new state to the run's folder."""

    def take(self, record: Record) -> None:
        """Take a record."""
        match record:
            case events.TrainingStarted():
                self.started = self.started or record
                self.fruitless += 1
            case events.CheckpointSaved(step=step, subject=node) if step >= self.step:
                self.nodes = (*self.nodes, node) if step == self.step and self.nodes else (node,)
                self.step = step
            case events.CheckpointCopied(step=step):
                self.fruitless = 0
                if step >= self.step:
                    self.step, self.nodes = step, ()
            case events.Resuming(step=int(step)):
                self.step, self.nodes = step, ()
            case _:
                pass


def read_history(folder: Path) -> History:
    """Return what the records of a run contain about its earlier starts."""
    history = History()
    with suppress(FileNotFoundError):
        for record in read_records(folder, *READ):
            history.take(record)
    return history


RETURN_SECONDS = 15.0
"""How long to wait for lost nodes when too few are left: a node that a job has lost never returns to it."""
FRUITLESS_STARTS = 3
"""After this many starts in a row without a new state in the run's folder, the next one gives up."""
MARGIN_SECONDS = 2.0
"""What is left of Slurm's KillWait to end ranks and to store how the run ended."""
ENDED = "Slurm ends it"
LIMIT_SECONDS, STOP_SECONDS = 3600.0, 240.0
"""How long saving may take before the time limit, where Slurm itself ends it, and for a person who waits."""


class NoProgress(DeviceError):
    """Earlier starts of a job achieved nothing."""


class NotRequeued(DeviceError):
    """Slurm refused to put a job back into the queue."""


class Attempt:
    """One start of the job."""

    def __init__(self, folder: Path, job: int, restarts: int, history: History) -> None:
        self.folder = folder
        self.job = job
        self.restarts = restarts
        """How often Slurm has started it again."""
        self.history = history
        self.departure = Departure()
        self._reason = ""
        """Why it leaves; empty while it does not."""
        self._requeues = False

    def require_progress(self) -> None:
        """Refuse another start if the last ones achieved nothing: it would go on like that forever."""
        if self.history.fruitless >= FRUITLESS_STARTS:
            raise NoProgress(
                f"{self.history.fruitless} starts of job {self.job} in a row saved no new state",
                hint=f"see the output in {self.folder}; a larger --time, or more checkpoints, may help",
            )

    @property
    def recipe(self) -> Recipe:
        """Return the recipe of the earlier starts."""
        assert self.history.started
        try:
            return recipes.from_record(self.history.started.recipe)
        except ValueError:
            raise UsageError(f"the recipe in the records of {self.folder} is from another version of railbed") from None

    @property
    def earlier(self) -> EarlierState:
        """Return what the earlier starts saved."""
        step, nodes = self.history.step, self.history.nodes
        return EarlierState(run=self.folder.name, step=step, nodes=nodes, may_start_over=True)

    def adapt(self, request: TrainRequest) -> TrainRequest:
        """Return a request that copies its state to the run's folder, and that can leave its nodes."""
        return replace(request, shared=str(self.folder), departure=self.departure, return_seconds=RETURN_SECONDS)

    async def of_job(
        self, records: AsyncGenerator[Record, None], fleet: Fleet, cluster: Cluster
    ) -> AsyncGenerator[Record, None]:
        """Yield the records of the training; raise LeftEarly, after the last one, if it has to leave the nodes."""
        done = False
        if reason := take_reason(self.folder):
            yield events.Notice(message=f"job {self.job} starts again: {reason}")
        async with watchdogs(fleet, cluster, self.job, self.folder), aclosing(records):
            with self._signals(await kill_wait()):
                try:
                    async for record in records:
                        done = done or isinstance(record, events.GenerationDone)
                        yield record
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if not self._reason or task is None:
                        raise
                    task.uncancel()
                except GaveUp as error:
                    if not self.departure.has_begun:
                        raise  # what fails before the first rank has started would fail again
                    if not self._reason:
                        self._requeues = not await self._is_being_ended()
                        self._reason = error.message if self._requeues else ENDED
        if self._reason and not done:
            status = await self._status()
            yield self._event(status)
            raise LeftEarly(status, INTERRUPTED)

    async def _is_being_ended(self) -> bool:
        """Whether Slurm ends the job: `scancel` ends its steps first, which looks like the loss of all nodes."""
        with suppress(RailbedError):
            return (await read_details(self.job)).state != RUNNING
        return False

    def _event(self, status: Status) -> Record:
        step = self.departure.copied if self.departure.copied is not None else self.history.step or None
        if status != "waiting":
            return events.Notice(message=f"job {self.job} leaves its nodes: {self._reason}")
        return events.Requeued(
            subject=self.folder.name,
            message=f"job {self.job} leaves its nodes and waits for others: {self._reason}",
            job=self.job,
            step=step,
        )

    async def _status(self) -> Status:
        """Return what becomes of the run: Slurm requeues the job, or we do, or it has ended."""
        if self._requeues:
            return "waiting"
        with suppress(RailbedError):
            details = await read_details(self.job)
            return "waiting" if details.is_requeued(self.restarts) else "stopped"
        return "stopped"

    def leave(self, left: LeftEarly) -> int:
        """Put the job back into the queue if nobody else does, and return the exit code."""
        if not self._requeues:
            return left.code
        try:
            # SIGTERM stays ignored: Slurm sends it as soon as it has accepted this.
            asyncio.run(_requeue(self.job, self.restarts))
        except RailbedError as error:
            set_status(self.folder, "stopped", INTERRUPTED)
            raise NotRequeued(
                f"job {self.job} could not be requeued: {error.message}",
                hint=f"its state is saved: `{to_resume(summary_of(self.folder))}` continues it",
            ) from error
        return OK

    @contextmanager
    def _signals(self, wait: float) -> Iterator[None]:
        """Handle Slurm's signals, in a coroutine that `run_until_ended` runs; afterwards they are ignored.

        From then on the end is near, and Slurm's own SIGTERM must not keep us from requeueing the job.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        timers: list[asyncio.TimerHandle] = []

        def leave(reason: str, seconds: float, *, requeues: bool) -> None:
            self._reason, self._requeues = reason, requeues
            for timer in timers:
                timer.cancel()
            timers.append(loop.call_later(seconds if self.departure.has_begun else 0.0, task.cancel))
            self.departure.request()

        handlers = {
            signal.SIGUSR1: lambda: leave("its time limit is near", LIMIT_SECONDS, requeues=True),
            signal.SIGUSR2: lambda: leave("it was stopped", STOP_SECONDS, requeues=False),
            signal.SIGTERM: lambda: leave(ENDED, max(0.0, wait - MARGIN_SECONDS), requeues=False),
        }
        for number, handle in handlers.items():
            loop.add_signal_handler(number, handle)
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
            for number in handlers:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)


async def _requeue(job: int, restarts: int) -> None:
    try:
        await requeue_job(job)
    except RailbedError:
        # Slurm may have ended the command that brought it the request.
        if not (await read_details(job)).is_requeued(restarts):
            raise


def show_attempt(attempt: Attempt, training: RecordStream, screen: Screen) -> int:
    """Train in this start of the job, show it, and return the exit code."""
    attempt.require_progress()
    invocation = training.invocation

    def in_job(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return attempt.of_job(invocation.work(fleet), fleet, invocation.cluster)

    try:
        return show(training.doing(in_job), screen)
    except LeftEarly as left:
        return attempt.leave(left)


def this_attempt() -> Attempt | None:
    """Return the start of the submitted job that this process is; None if it is none."""
    job = os.environ.get("SLURM_JOB_ID", "")
    folder = run_to_continue() if job.isdigit() else None
    if folder is None:
        return None
    history = read_history(folder)
    count = os.environ.get("SLURM_RESTART_COUNT", "")
    restarts = int(count) if count.isdigit() else 0
    # Only starts of this job count: a person who submits the run again wants another.
    history.fruitless = min(history.fruitless, restarts)
    return Attempt(folder, int(job), restarts, history)
