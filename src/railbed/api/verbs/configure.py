"""`railbed.configure` and `railbed.undo`: make a cluster right, and take that back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from railbed.api.clusters import ClusterLike, cluster_words, required_cluster
from railbed.api.exits import DEVICE, FOUND
from railbed.api.reach import Confirm, Reach, confirming
from railbed.api.running import Invocation, Work
from railbed.api.stored import Run, folder_of
from railbed.api.stream import RecordStream
from railbed.api.tally import Conclusion, Tally
from railbed.api.verbs.check import rule_named
from railbed.check.book import usual_checks
from railbed.configure.apply import undo as undo_changes
from railbed.configure.journal import ChangeJournal
from railbed.configure.power import PowerRequest, require_bmcs
from railbed.configure.power import power_cycle as cycle_nodes
from railbed.configure.request import ConfigureRequest
from railbed.configure.run import checks_with_fixes
from railbed.configure.run import configure as configure_devices
from railbed.configure.undo_choice import undo_request, undoable
from railbed.configure.wheels import Wheels
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.text import plural
from railbed.store import NEWEST, Store
from railbed.transport.base import targets_of


def configure(
    cluster: ClusterLike = None,
    *,
    apply: bool = False,
    rules: Sequence[str] = (),
    everything: bool = False,
    only: Sequence[str] = (),
    render: Path | None = None,
    wheels: Path | None = None,
    confirm: Confirm | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Plan the changes that fix what `check` reports; with `apply`, make them and check again.

    Yields the changes of each device; with `apply` also the outcome on each, and the findings afterwards. A device that
    can no longer be reached restores itself, and `undo` restores all that a run changed.

    `rules` chooses the fixes of these rules, also those that need a decision, and `everything` those of all rules that
    do; `only` names the devices to change.
    `render` writes the changes to files in a folder, to apply them by hand. `wheels` is a folder from which Python
    environments are installed, in place of a package index. `confirm` is asked once before anything is changed;
    without it, the changes are made.
    """
    reach, store = reach or Reach(), store or Store()
    if apply and render:
        raise UsageError("--apply and --render do not go together", hint="give one of them")
    if wheels and render:
        raise UsageError("--wheels goes only with --apply", hint="a script cannot send them")
    if apply:
        _refuse_recording(reach)
    site = required_cluster(cluster, reach, "configure")
    named = [rule_named(name) for name in rules]
    journal = _journal_of(site)
    checks = named or checks_with_fixes(usual_checks())
    request = ConfigureRequest(
        checks=checks,
        callbacks=journal.callbacks(confirming(confirm), render, store.folder),
        mode="apply" if apply else "render" if render else "show",
        named={rule.name for rule in (checks if everything else named)},
        only=named_devices(site, only),
        wheels=Wheels.from_folder(wheels) if wheels else None,
    )
    invocation = _invocation(site, journal, lambda fleet: configure_devices(site, fleet, request), changing=apply)
    words = ["configure", *(["--apply"] if apply else []), *_words("--rule", rules), *_words("--only", only)]
    words += ["--all"] if everything else []
    return RecordStream(invocation, reach, store, [*words, *cluster_words(cluster)])


def power_cycle(
    nodes: Sequence[str],
    cluster: ClusterLike = None,
    *,
    apply: bool = False,
    confirm: Confirm | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Plan to switch nodes off and on again through their BMCs, or on if they are off; with `apply`, do it.

    Yields a change for each node, and with `apply` the outcome. There is no undo, and nothing else calls this: a node
    is power cycled only if somebody names it. `confirm` is asked once before anything is done.
    """
    reach, store = reach or Reach(), store or Store()
    if apply:
        _refuse_recording(reach)
    site = required_cluster(cluster, reach, "configure")
    require_bmcs(site, nodes)
    journal = _journal_of(site)
    callbacks = journal.callbacks(confirming(confirm), None, store.folder)
    request = PowerRequest(nodes=tuple(dict.fromkeys(nodes)), callbacks=callbacks, apply=apply)
    invocation = _invocation(site, journal, lambda fleet: cycle_nodes(site, fleet, request), changing=apply)
    words = ["configure", *(["--apply"] if apply else []), *_words("--power-cycle", nodes), *cluster_words(cluster)]
    return RecordStream(invocation, reach, store, words)


def undo(
    run: Run | str | os.PathLike[str] = NEWEST,
    cluster: ClusterLike = None,
    *,
    only: Sequence[str] = (),
    overwrite: bool = False,
    confirm: Confirm | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Restore what a run of `configure` changed, unless somebody has changed it since.

    Yields the changes that undo it, and the outcome on each device.

    `run` is a run, its name, the path of its folder, or the newest with changes that are in effect. `only` names the
    devices to restore; `overwrite` also undoes what somebody has changed since. `confirm` is asked once before
    anything is changed; without it, the run must provably be one that you made on this machine.
    """
    reach, store = reach or Reach(), store or Store()
    _refuse_recording(reach)
    site = required_cluster(cluster, reach, "configure")
    devices = named_devices(site, only)
    folder = folder_of(run, undoable(site, devices, store.folder), store)
    journal = _journal_of(site)
    request = undo_request(
        site,
        folder,
        journal.callbacks(confirming(confirm), None, store.folder),
        runs=store.folder,
        only=devices,
        overwrite=overwrite,
        own=confirm is None,
    )
    invocation = _invocation(site, journal, lambda fleet: undo_changes(site, fleet, request), changing=True)
    words = ["configure", "--undo", folder.name, *_words("--only", only), *cluster_words(cluster)]
    return RecordStream(invocation, reach, store, words)


def named_devices(cluster: Cluster, only: Sequence[str]) -> frozenset[str]:
    """Return the devices of these names; raise UsageError if the cluster does not have one of them."""
    names = frozenset(only)
    known = {*cluster.nodes, *cluster.switches}
    if strangers := sorted(names - known):
        raise UsageError(
            f"--only {strangers[0]}: the cluster file has no such device", hint=f"it has {', '.join(known)}"
        )
    return names


def _refuse_recording(reach: Reach) -> None:
    if reach.replay:
        raise UsageError("a recording cannot be changed", hint="leave out --replay")


def _journal_of(cluster: Cluster) -> ChangeJournal:
    targets = targets_of(cluster, changing=True)
    return ChangeJournal(
        cluster.name, [f"{target.host or target.name}:{target.login.port or 22}" for target in targets]
    )


def _invocation(cluster: Cluster, journal: ChangeJournal, work: Work, *, changing: bool) -> Invocation:
    return Invocation(
        verb="configure",
        cluster=cluster,
        work=work,
        decide=lambda tally: conclude_changes(journal, tally, changing=changing),
        beside=journal.beside,
        closing=journal.closing,
        changing=True,
    )


def _words(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def conclude_changes(journal: ChangeJournal, tally: Tally, *, changing: bool) -> Conclusion:
    """Decide the exit code; `changing` if changes were to be made, rather than only shown."""
    if tally.devices and not tally.answered:
        return Conclusion(DEVICE, "no device answered", announced=True)
    if journal.unchanged:
        return Conclusion(FOUND, f"not changed: {', '.join(journal.unchanged)}", announced=True)
    if tally.failed:
        return Conclusion(FOUND, f"{plural(tally.failed, 'finding')} failed", announced=True)
    planned = journal.planned
    if planned and planned.changes and not journal.outcomes:
        reason = "nothing was changed" if changing else "there are changes to make"
        return Conclusion(FOUND, reason, announced=True)
    if planned and planned.left_out:
        left_out = plural(planned.left_out, "change was", "changes were")
        return Conclusion(FOUND, f"{left_out} left out", announced=True)
    return Conclusion()
