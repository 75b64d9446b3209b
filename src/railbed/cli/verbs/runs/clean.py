"""`railbed runs --clean`: lists files that runs left here and on their nodes, asks once, and removes them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import typer
from rich.text import Text

from railbed.api.exits import DEVICE, FOUND, OK
from railbed.cli.console import SafeConsole
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import JsonScreen
from railbed.cli.site import given_cluster
from railbed.cli.verbs.runs.leftovers import CleanUpPlan, JobClaim, LocalRun, job_claims, make_plan, size_of
from railbed.errors import DeviceError, RailbedError, UsageError
from railbed.fleet import Fleet
from railbed.launch.files.client import FolderEntry, FolderListing, NodeFolder, list_entries, remove_entries
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.text import printable, size
from railbed.present.wording import moment
from railbed.store import NEWEST, RunSummary, is_own_folder, list_runs, remove_run, runs_folder, similar_names
from railbed.store.find import ForeignRun, cluster_to_act_on, read_start
from railbed.transport.base import Target, targets_of
from railbed.transport.connect import live_connector

ON_NODES = ("train", "bench")
"""Verbs that leave files on nodes."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to clean, and how."""

    names: Sequence[str] = ()
    keep: int = 0
    yes: bool = False
    cluster: Path | None = None
    json: bool = False
    timeout: float = 60.0

    def command(self) -> str:
        """Return the command that does the same without asking."""
        keep = ["--keep", str(self.keep)] if self.keep else []
        return " ".join(["railbed runs --clean", *self.names, *keep, "--yes"])


@dataclass
class Nodes:
    """All nodes that runs used, each once, under unique names."""

    targets: dict[str, Target] = field(default_factory=dict)
    folders: dict[str, NodeFolder] = field(default_factory=dict)
    _names: dict[tuple[object, ...], str] = field(default_factory=dict)

    def add(self, cluster: Cluster) -> list[str]:
        """Add the nodes of a cluster and return their names here."""
        return [self._add(cluster, target) for target in targets_of(cluster) if target.kind == "node"]

    def _add(self, cluster: Cluster, target: Target) -> str:
        workdir, interpreter = cluster.training.workdir, cluster.interpreter_of(target.name)
        key = (target.host, target.login, workdir)
        if key not in self._names:
            name = target.name if target.name not in self.targets else f"{target.name}@{target.host}"
            while name in self.targets:
                name += "+"
            self._names[key] = name
            self.targets[name] = Target(name=name, host=target.host, login=target.login)
            self.folders[name] = NodeFolder(interpreter=interpreter, workdir=workdir)
        return self._names[key]


def clean(wish: Wish) -> int:
    """List, ask, remove; return the exit code."""
    _refuse_newest(wish)
    nodes = Nodes()
    if cluster := given_cluster(wish.cluster, None):
        nodes.add(cluster)
    summaries = [summary for summary in list_runs() if is_own_folder(runs_folder() / summary.id)]
    claims = job_claims(summaries)
    runs = [_local(summary, nodes, claims.get(summary.id)) for summary in summaries]
    _refuse_used(wish, runs, claims)
    if nodes.targets and sys.stderr.isatty():
        sys.stderr.write(f"listing files of runs on {', '.join(nodes.targets)} …\n")
    listings = _with_fleet(nodes, wish, lambda fleet: list_entries(fleet, nodes.folders))
    _refuse_unknown(wish, runs, listings)
    plan = make_plan(runs, listings, named=wish.names, keep=wish.keep)
    silent = {node: listing for node, listing in listings.items() if isinstance(listing, DeviceError)}
    show = _show_json if wish.json else _show
    show(plan, silent)
    _explain_foreign(plan)
    is_complete = not silent and all(claim.is_certain for claim in claims.values())
    if not (plan.here or plan.there):
        return OK if is_complete else DEVICE
    if not (wish.yes or _ask_consent(wish, plan)):
        return FOUND
    _refuse_requeued(plan)
    left = _remove(wish, nodes, plan)
    return OK if is_complete and not left else DEVICE


def _local(summary: RunSummary, nodes: Nodes, claim: JobClaim | None) -> LocalRun:
    folder = runs_folder() / summary.id
    job, used, is_foreign = "", [], False
    stays = "it is running" if summary.status == "running" else ""
    if summary.verb in ON_NODES:
        try:
            cluster = cluster_to_act_on(folder)
            used = [] if claim else nodes.add(cluster)  # the nodes of a job are out of reach while it waits
            job = read_start(folder).run if summary.verb == "train" else ""
        except ForeignRun:
            is_foreign = True
        except (RailbedError, OSError, ValueError, KeyError):
            pass  # it ended before its training began, and left nothing on nodes
    return LocalRun(
        summary=summary,
        folder=folder,
        size=size_of(folder),
        job=job,
        nodes=used if job else (),
        is_foreign=is_foreign,
        stays=f"{claim.reason}; {claim.remedy}" if claim else stays,
    )


def _refuse_newest(wish: Wish) -> None:
    """Refuse `newest`, which may mean the run to remove or the run to keep."""
    if NEWEST in wish.names:
        runs = list_runs()
        remove = f"; `railbed runs --clean {runs[0].id}` removes it" if runs else ""
        raise UsageError(
            f"--clean needs the name of a run, not `{NEWEST}`", hint=f"--keep 1 keeps the newest run{remove}"
        )


def _refuse_used(wish: Wish, runs: Sequence[LocalRun], claims: Mapping[str, JobClaim]) -> None:
    for name in (run.summary.id for run in runs if run.summary.id in wish.names and run.stays):
        if claim := claims.get(name):
            raise UsageError(f"{name} stays: {claim.reason}", hint=claim.remedy)
        raise UsageError(f"{name} is running", hint=f"`railbed train --stop {name}` ends it")


def _refuse_requeued(plan: CleanUpPlan) -> None:
    """Refuse to go on if the job of a run came into the queue while the question waited for its answer."""
    for name, claim in job_claims([run.summary for run in plan.here]).items():
        raise UsageError(f"{name} stays, and nothing was removed: {claim.reason}", hint=claim.remedy)


def _refuse_unknown(wish: Wish, runs: Sequence[LocalRun], listings: dict[str, FolderListing | DeviceError]) -> None:
    known = {run.summary.id for run in runs}
    for listing in listings.values():
        if isinstance(listing, FolderListing):
            known |= {entry.path.split("/")[1] for entry in listing.entries if "/" in entry.path}
    for name in wish.names:
        if name not in known:
            raise UsageError(
                f"there is no run {name!r} in {runs_folder()} or on its nodes", hint=similar_names(name, known)
            )


def _with_fleet(nodes: Nodes, wish: Wish, work: Callable[[Fleet], Awaitable[T]]) -> T:
    async def working() -> T:
        async with (
            live_connector() as connect,
            Fleet(list(nodes.targets.values()), connect, timeout=wish.timeout) as fleet,
        ):
            return await work(fleet)

    return run_until_ended(working())


def _ask_consent(wish: Wish, plan: CleanUpPlan) -> bool:
    if wish.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        sys.stderr.write(f"nothing was removed: `{wish.command()}` removes the listed files\n")
        return False
    return typer.confirm(f"Remove all of this ({size(plan.size)})?", default=False, err=True)


def _remove(wish: Wish, nodes: Nodes, plan: CleanUpPlan) -> bool:
    """Remove files on the nodes, then here; a run with files left on its nodes stays. Return whether any did."""
    wanted = plan.paths()
    answers = _with_fleet(nodes, wish, lambda fleet: remove_entries(fleet, nodes.folders, wanted)) if wanted else {}
    gone: list[tuple[str, int]] = []
    failed: dict[str, str] = {}
    for node, answer in answers.items():
        if isinstance(answer, DeviceError):
            failed[node] = answer.message
            continue
        gone += [(f"{node}:{entry.path}", entry.size) for entry in answer]
        failed |= _still_there(node, wanted[node], answer)
    for run in plan.here:
        if any(node in failed for node in run.nodes) and run.summary.id not in wish.names:
            continue
        try:
            remove_run(run.folder)
            gone.append((str(run.folder), run.size))
        except (OSError, UsageError) as error:
            failed[str(run.folder)] = str(error)
    _report_removed(wish, gone, failed)
    return bool(failed)


def _still_there(node: str, wanted: Sequence[str], gone: Sequence[FolderEntry]) -> dict[str, str]:
    left = set(wanted) - {entry.path for entry in gone}
    return {node: f"{min(left)} is now in use"} if left else {}


def _report_removed(wish: Wish, gone: Sequence[tuple[str, int]], failed: dict[str, str]) -> None:
    if wish.json:
        for where, removed in gone:
            JsonScreen().show(events.Removed(subject=where, bytes=removed))
    else:
        sys.stdout.write(f"removed {len(gone)} of them, {size(sum(removed for _, removed in gone))}\n")
    for where, why in failed.items():
        sys.stderr.write(f"{printable(f'{where}: {why}')}\n")


def _show(plan: CleanUpPlan, silent: dict[str, DeviceError]) -> None:
    console, err = SafeConsole(highlight=False), SafeConsole(stderr=True, highlight=False)
    if plan.here or plan.there:
        for taken, when, what in _lines(plan):
            console.print(Text(printable(f"{size(taken):>10}  {_when(when)}  {what}")), soft_wrap=True)
        console.print(f"{len(plan.here) + len(plan.there)} to remove, {size(plan.size)}")
    else:
        err.print("there is nothing to remove")
    for where, why in plan.retained:
        err.print(Text(printable(f"stays: {where}: {why}"), style="dim"), soft_wrap=True)
    for node, error in silent.items():
        sentence = f"{node} cannot be reached, and files that runs left there stay: {error.message}"
        err.print(Text(printable(sentence), style="red"), soft_wrap=True)


def _explain_foreign(plan: CleanUpPlan) -> None:
    if foreign := [run.summary.id for run in plan.here if run.is_foreign]:
        sentence = f"the nodes of {', '.join(foreign)} were not reached: nothing proves that you made these runs here"
        sys.stderr.write(
            f"{printable(sentence)}\n  to clean nodes of your own as well, name their cluster file: -c FILE\n"
        )


def _lines(plan: CleanUpPlan) -> Iterator[tuple[int, float, str]]:
    """Yield what will be removed: size, last use, and location."""
    for run in plan.here:
        yield run.size, run.summary.ended or run.summary.started, f"{run.folder} ({run.summary.status})"
    for leftover in plan.there:
        shared = "" if leftover.job else " (shared by runs)"
        yield leftover.entry.size, leftover.entry.used, f"{leftover.where}{shared}"


def _show_json(plan: CleanUpPlan, silent: dict[str, DeviceError]) -> None:
    screen = JsonScreen()
    for run in plan.here:
        summary = run.summary
        screen.show(events.Leftover(subject=str(run.folder), run=summary.id, bytes=run.size, status=summary.status))
    for leftover in plan.there:
        entry = leftover.entry
        screen.show(
            events.Leftover(
                subject=leftover.where, node=leftover.node, run=leftover.job, bytes=entry.size, used=entry.used
            )
        )
    for where, why in plan.retained:
        screen.show(events.Retained(subject=where, message=why))
    for node, error in silent.items():
        screen.show(events.NodeLost(subject=node, message=error.message))


def _when(seconds: float) -> str:
    return moment(seconds, "%Y-%m-%d %H:%M")
