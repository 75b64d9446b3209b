"""Starts a training on a cluster that is known: the request, from a recipe or an earlier run, and the run around it.

For `railbed train --resume RUN` it decides which run continues, where, and with which options.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

import typer

from railbed.api.kinds import RESTARTABLE, RESUMABLE
from railbed.api.site import built_in_local
from railbed.api.train.earlier import EarlierRun, earlier_run, own_cluster, require_common_node
from railbed.api.train.request import continuing, request_of, with_placement
from railbed.api.train.verb import train_stream
from railbed.cli.background.detach import BackgroundScreen
from railbed.cli.background.runs import training_run, was_given
from railbed.cli.options import Options
from railbed.cli.run.perform import show
from railbed.cli.screens.base import JsonScreen, Screen
from railbed.cli.screens.progress import working
from railbed.cli.screens.train import TrainScreen
from railbed.cli.site import given_cluster
from railbed.cli.slurm.attempt import Attempt, show_attempt, this_attempt
from railbed.cli.verbs.watch.view import local_page, page_beside
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.store import NEWEST
from railbed.store.cache import cache_folder
from railbed.train import recipes
from railbed.train.data.prepare import PreparedData, prepare
from railbed.train.recipe import Recipe
from railbed.train.run import TrainRequest
from railbed.watch.run import RunSeries

T = TypeVar("T")


def run_to_resume(wanted: str, *, from_start: bool) -> EarlierRun:
    """Return the run of this name or folder, or the newest; raise UsageError if it cannot continue."""
    folder, summary = training_run(wanted, RESTARTABLE if from_start else RESUMABLE)
    return earlier_run(folder, summary, wanted=summary.id if wanted == NEWEST else wanted)


def setting(context: typer.Context, earlier: EarlierRun, name: str, value: T) -> T:
    """Return the value of an option: from the command line, or that of the earlier run."""
    return value if was_given(context, name) else cast("T", earlier.options.get(name, value))


def site_of(earlier: EarlierRun, file: Path | None) -> Cluster:
    """Return where it continues: on its own cluster, or on another that has at least one of its nodes."""
    if file is None:
        cluster = own_cluster(earlier)
        nodes = ", ".join(cluster.nodes)
        sys.stderr.write(f"{earlier.id} continues on its own cluster, {cluster.name} ({nodes})\n")
        return cluster
    other = given_cluster(file, None) or built_in_local()
    require_common_node(earlier, other, str(file))
    return other


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What to train, and how."""

    recipe: str
    settings: list[str]
    earlier: EarlierRun | None
    """The run to continue, if one was named."""
    from_start: bool
    ranks: int | None
    minimum: int
    transport: str
    unchecked: bool
    sample_seconds: float
    watched: bool

    def with_options_of(self, earlier: EarlierRun, context: typer.Context) -> Start:
        """Return it with the options of the run to continue, where the command line sets none."""
        return replace(
            self,
            ranks=self.ranks or earlier.options.get("ranks"),
            minimum=setting(context, earlier, "minimum", self.minimum),
            transport=setting(context, earlier, "transport", self.transport),
            sample_seconds=setting(context, earlier, "sample_seconds", self.sample_seconds),
        )

    def run(self, site: Cluster, options: Options, background: BackgroundScreen | None) -> int:
        """Train on a cluster, and return the exit code."""
        screen: Screen = background or (JsonScreen() if options.json else TrainScreen(verbose=False))
        series, attempt = RunSeries(self.sample_seconds), this_attempt()
        training = train_stream(
            site,
            self._request(site, attempt),
            series=series,
            check_first=not self.unchecked,
            passed=background.leave_terminal if background else _continue,
            warn=_warn,
            reach=options,
        )
        page = local_page() if self.watched else None

        # The page comes first: with --detach, its link, which may contain a token, is printed on the terminal.
        async def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
            folder = shown.run.folder
            async with (
                page_beside(folder, page, show=screen.line.print_line),
                aclosing(training.invocation.work(fleet)) as records,
            ):
                async for record in records:
                    yield record

        shown = training.doing(work)
        return show_attempt(attempt, shown, screen) if attempt else show(shown, screen)

    def _request(self, site: Cluster, attempt: Attempt | None) -> TrainRequest:
        request = with_placement(
            self._request_of(attempt), site, ranks=self.ranks, minimum=self.minimum, transport=self.transport
        )
        return attempt.adapt(request) if attempt else request

    def _request_of(self, attempt: Attempt | None) -> TrainRequest:
        """Return the request of a run to continue, of a job that has been started before, or of a recipe."""
        if self.earlier:
            return continuing(self.earlier, prepared_data(self.earlier.recipe), from_start=self.from_start)
        if attempt and attempt.history.started:
            again = request_of(attempt.recipe, prepared_data(attempt.recipe), attempt.history.started.run)
            return replace(again, resumes=attempt.earlier)
        wanted = recipes.load(self.recipe, self.settings)
        return request_of(wanted, prepared_data(wanted))


def _continue() -> None:
    """Do nothing once the cluster has passed its check: the terminal stays."""


def _warn(sentence: str) -> None:
    sys.stderr.write(f"railbed: {sentence}\n")


def prepared_data(wanted: Recipe) -> PreparedData:
    """Return the tokens of a recipe, from the cache or prepared now."""
    with working("preparing the text") as activity:
        return prepare(wanted, cache_folder("tokens"), activity.count)
