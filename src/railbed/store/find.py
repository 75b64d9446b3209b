"""Finds the run that a user names: by its name, by its folder, or as the newest that a verb can use.

The cluster of a run is data: only a run that this user made may decide what is executed and reached.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railbed import clusterfile
from railbed.errors import UsageError, os_reason
from railbed.model.cluster import Cluster
from railbed.model.events import TrainingStarted
from railbed.model.regular import open_regular
from railbed.model.text import printable
from railbed.store.proof import first_training, has_own_training, own_cluster_file
from railbed.store.run import ABOUT, CLUSTER, RUN_NAME, RunSummary, is_own_folder, list_runs, read_run_in, runs_folder

NEWEST = "newest"
"""Names the newest run of this user that a verb can use, or else of another; a folder with this name is `./newest`."""
ABOUT_OTHERS = ("export",)
"""Verbs that only fetch results of another run; they do not count as the newest run."""
SYNONYMS = ("last", "latest")
MOST_SIMILAR = 3
LISTS = "`railbed runs` lists them"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKind:
    """The runs that a verb can use."""

    noun: str
    """Singular, such as `training that is in progress`."""
    fits: Callable[[RunSummary, Path], bool]
    """Whether the verb can use a run, by its summary and folder."""
    hint: str
    """How to make such a run."""


ANY_RUN = RunKind(
    noun="run", fits=lambda run, _: run.verb not in ABOUT_OTHERS, hint="`railbed check` makes one, for example"
)


def find_run(name: str | None, kind: RunKind = ANY_RUN, parent: Path | None = None) -> Path:
    """Return the folder of a run: by its name or the path of its folder; for `newest` and None, the newest of a kind.

    A run that is named by its own name or folder may be of any kind. `parent` is the folder of all runs.
    """
    parent = parent or runs_folder()
    if name is None or name == NEWEST:
        return _newest(kind, parent)
    if RUN_NAME.fullmatch(name) and read_run_in(parent / name):
        return parent / name
    path = Path(name)
    if name and read_run_in(path):
        return path
    if name and os.path.lexists(path):
        raise UsageError(f"{path} is not a run: it has no readable {ABOUT}", hint="`railbed runs` lists runs")
    raise UsageError(f"there is no run {name!r} in {parent}", hint=similar_names(name, parent=parent))


def summary_of(folder: Path) -> RunSummary:
    """Return the current summary of a run."""
    summary = read_run_in(folder)
    if summary is None:
        raise UsageError(f"the run in {folder} can no longer be read", hint="`railbed runs` lists the runs")
    return summary


def read_start(folder: Path) -> TrainingStarted:
    """Return the first event of a training run."""
    if training := first_training(folder):
        return training[1]
    raise UsageError(f"{folder.name} ended before its training began", hint="`railbed runs` lists runs")


def jobs_in_progress(parent: Path | None = None) -> dict[str, str]:
    """Return the names of the training runs of a folder that are in progress, by the names of their jobs."""
    parent = parent or runs_folder()
    names = {}
    for run in list_runs(parent):
        if run.verb == "train" and run.status == "running" and is_own_folder(parent / run.id):
            with suppress(UsageError):
                names[read_start(parent / run.id).run] = run.id
    return names


def similar_names(name: str, further: Iterable[str] = (), *, parent: Path | None = None) -> str:
    """Return the hint for an unknown name: similar ones, the newest first, or where they are listed."""
    names = [run.id for run in list_runs(parent)]
    names += sorted({*further} - {*names}, reverse=True)
    similar = [NEWEST] if name in SYNONYMS else [known for known in names if name and name in known][:MOST_SIMILAR]
    similar = similar or difflib.get_close_matches(name, [NEWEST, *names], n=MOST_SIMILAR)
    if not similar:
        return LISTS
    *others, last = map(printable, similar)
    choice = f"{', '.join(others)} or {last}" if others else last
    return f"did you mean {choice}? `railbed runs` lists all"


def _newest(kind: RunKind, parent: Path) -> Path:
    folders = [(run, parent / run.id) for run in list_runs(parent)]
    # Those of this user come first: others may have put theirs into a shared folder.
    for run, folder in sorted(folders, key=lambda pair: not is_own_folder(pair[1])):
        if kind.fits(run, folder):
            return folder
    raise UsageError(f"there is no {kind.noun} in {parent}", hint=kind.hint)


class ForeignRun(UsageError):
    """A run has no proof that this user made it."""


def cluster_to_read(folder: Path) -> Cluster:
    """Return the cluster of a run, to describe the run: nothing in it may be executed or reached."""
    path = folder / CLUSTER
    try:
        open_regular(path).close()
    except FileNotFoundError:
        pass  # the next line has the sentence for it
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {os_reason(error)}", hint="name a cluster file with -c FILE"
        ) from error
    return clusterfile.load(path)


def require_own_training(folder: Path) -> None:
    """Raise ForeignRun unless what a run trains, and under which name, is what this user started it with."""
    if not has_own_training(folder):
        raise ForeignRun(
            f"{folder.name} has no proof that you started this training here, so it is not continued",
            hint="start a run of your own with its recipe",
        )


def cluster_to_act_on(folder: Path) -> Cluster:
    """Return the cluster of a run, to work on it; raise ForeignRun unless this user made the run and its cluster."""
    if not (folder / CLUSTER).exists():
        raise UsageError(f"{folder.name} has no cluster file", hint="name it with -c FILE")
    content = own_cluster_file(folder)
    if content is None:
        raise ForeignRun(
            f"{folder.name} has no proof that you made it here and that its {CLUSTER} is unchanged, so its programs are"
            " not started and its hosts not reached",
            hint="name a cluster file of your own with -c FILE",
        )
    # The proven bytes: the file may be replaced at any moment.
    return clusterfile.loads(content.decode(), name=str(folder / CLUSTER))
