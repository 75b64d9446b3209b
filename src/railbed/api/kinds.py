"""Which runs each verb can use, for `newest`."""

from __future__ import annotations

from pathlib import Path

from railbed.model import events
from railbed.model.record import Event
from railbed.store import RunKind, RunSummary, is_own_folder, read_records
from railbed.store.run import SERIES
from railbed.store.submitted import was_submitted

STARTS_TRAINING = "`railbed train` starts one"
BEGAN = (events.TrainingStarted,)
CHECKPOINTS = (events.CheckpointSaved, events.Resumed)
WEIGHTS = (*CHECKPOINTS, events.WeightsWritten)


def has_checkpoint(folder: Path) -> bool:
    """Whether a training saved its state, or began with one."""
    return _has_record(folder, CHECKPOINTS)


def _has_record(folder: Path, kinds: tuple[type[Event], ...]) -> bool:
    try:
        return any(True for _ in read_records(folder, *kinds))
    except OSError:
        return False


def _may_have_series(run: RunSummary, folder: Path) -> bool:
    return run.verb == "train" or (folder / SERIES).is_dir()


def _has_series(run: RunSummary, folder: Path) -> bool:
    if not _may_have_series(run, folder):
        return False
    from railbed.store.timeline import Timeline  # numpy is slow to load

    return bool(Timeline(folder).series())


def _is_watchable(run: RunSummary, folder: Path) -> bool:
    """Whether a run has time series, or will have them."""
    return (run.status == "running" and _may_have_series(run, folder)) or _has_series(run, folder)


def _is_training(run: RunSummary, _: Path) -> bool:
    return run.verb == "train"


def _is_attachable(run: RunSummary, folder: Path) -> bool:
    return run.verb == "train" or was_submitted(folder)


def _is_in_progress(run: RunSummary, folder: Path) -> bool:
    """Whether a run of this user has not ended; one that is written on another machine may look dead from here."""
    if not is_own_folder(folder):
        return False
    if run.status == "died":
        return was_submitted(folder)
    return run.status in ("running", "waiting")


SAMPLED = RunKind(
    noun="run with time series", fits=_has_series, hint="`railbed train` and `railbed watch` make such runs"
)
WATCHABLE = RunKind(noun=SAMPLED.noun, fits=_is_watchable, hint=SAMPLED.hint)
TRAINING = RunKind(noun="training run", fits=_is_training, hint=STARTS_TRAINING)
ATTACHABLE = RunKind(noun="training run or Slurm job", fits=_is_attachable, hint=STARTS_TRAINING)
TRAINING_IN_PROGRESS = RunKind(
    noun="training run in progress",
    fits=lambda run, folder: _is_training(run, folder) and _is_in_progress(run, folder),
    hint=STARTS_TRAINING,
)
IN_PROGRESS = RunKind(
    noun="training run or Slurm job in progress",
    fits=lambda run, folder: _is_attachable(run, folder) and _is_in_progress(run, folder),
    hint=STARTS_TRAINING,
)
RESUMABLE = RunKind(
    noun="training run with a checkpoint",
    # One in progress is refused with its name, rather than passed over for an older one.
    fits=lambda run, folder: run.verb == "train" and (run.status == "running" or has_checkpoint(folder)),
    hint=STARTS_TRAINING,
)
RESTARTABLE = RunKind(
    noun="training run that began",
    fits=lambda run, folder: run.verb == "train" and _has_record(folder, BEGAN),
    hint=STARTS_TRAINING,
)
WITH_WEIGHTS = RunKind(
    noun="training run with weights",
    fits=lambda run, folder: run.verb == "train" and _has_record(folder, WEIGHTS),
    hint=STARTS_TRAINING,
)
SUBMITTED_TRAINING = RunKind(
    noun="training run of a Slurm job",
    fits=lambda run, folder: run.verb == "train" and was_submitted(folder),
    hint="`railbed submit train` starts one",
)
