"""Does the work of `railbed configure`: chooses cluster and run, then shows, renders, applies or undoes changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from railbed.api.stream import RecordStream
from railbed.api.verbs.configure import configure, named_devices, power_cycle, undo
from railbed.cli.chosen import ask, chosen_run, require_terminal
from railbed.cli.options import Options
from railbed.cli.run.perform import show
from railbed.cli.screens.base import JsonScreen, Screen
from railbed.cli.site import given_cluster
from railbed.configure.undo_choice import undoable
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.store import runs_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of the verb."""

    apply: bool
    yes: bool
    undo: str | None
    only: Sequence[str]
    rules: Sequence[str]
    render: Path | None
    wheels: Path | None = None
    everything: bool = False
    overwrite: bool = False
    power_cycle: Sequence[str] = ()


def configure_cluster(file: Path | None, options: Options, wanted: Wanted) -> int:
    """Show, apply or undo changes, and return the exit code."""
    _validate(options, wanted)
    cluster = given_cluster(file, options.replay)
    if cluster is None:
        raise UsageError("configure needs a cluster file", hint="`railbed discover` writes one")
    screen = _screen(options, cluster, has_undo=not wanted.power_cycle)
    return show(_call(cluster, options, wanted, screen), screen)


def _call(cluster: Cluster, options: Options, wanted: Wanted, screen: Screen) -> RecordStream:
    confirm = None if wanted.yes else partial(ask, before=screen.line.clear)
    only = _split(wanted.only)
    if wanted.power_cycle:
        nodes = _split(wanted.power_cycle)
        return power_cycle(nodes, cluster, apply=wanted.apply, confirm=confirm, reach=options)
    if wanted.undo is not None:
        folder = chosen_run(wanted.undo, undoable(cluster, named_devices(cluster, only), runs_folder()))
        return undo(folder, cluster, only=only, overwrite=wanted.overwrite, confirm=confirm, reach=options)
    return configure(
        cluster,
        apply=wanted.apply,
        rules=_split(wanted.rules),
        everything=wanted.everything,
        only=only,
        render=wanted.render,
        wheels=wanted.wheels,
        confirm=confirm,
        reach=options,
    )


def _validate(options: Options, wanted: Wanted) -> None:
    """Refuse options that do not go together."""
    modes = {"--apply": wanted.apply, "--undo": wanted.undo is not None, "--render": wanted.render is not None}
    named = [option for option, chosen in modes.items() if chosen]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} do not go together", hint="give one of them")
    if wanted.wheels and (wanted.undo is not None or wanted.render):
        raise UsageError("--wheels goes only with --apply", hint="a script cannot send them, and an undo needs none")
    if wanted.overwrite and wanted.undo is None:
        raise UsageError("--overwrite goes only with --undo", hint="--apply sets every wrong value, whoever set it")
    if wanted.rules and wanted.undo is not None:
        raise UsageError("--rule and --undo do not go together", hint="an undo restores all that a run changed")
    if wanted.power_cycle and (
        wanted.undo is not None or wanted.render or wanted.only or wanted.rules or wanted.wheels or wanted.everything
    ):
        raise UsageError("--power-cycle goes only with --apply and --yes", hint="it names its nodes, and has no undo")
    if wanted.everything and wanted.undo is not None:
        raise UsageError("--all and --undo do not go together", hint="an undo restores all that a run changed")
    changing = wanted.apply or wanted.undo is not None
    if changing and options.replay:
        raise UsageError("a recording cannot be changed", hint="leave out --replay")
    if changing and not wanted.yes:
        require_terminal(json=options.json)


def _split(values: Sequence[str]) -> list[str]:
    return [name for value in values for name in value.split(",") if name]


def _screen(options: Options, cluster: Cluster, *, has_undo: bool) -> Screen:
    if options.json:
        return JsonScreen()
    # Imported here because drawing is slow to load.
    from railbed.cli.screens.configure import ConfigureScreen

    return ConfigureScreen(cluster=cluster, has_undo=has_undo)
