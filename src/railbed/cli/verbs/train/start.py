"""Starts a training on a cluster that is known: the request, from a recipe or an earlier run, and the run around it."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import typer

from railbed.cli.background.detach import BackgroundScreen
from railbed.cli.options import Options
from railbed.cli.run.perform import perform
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.progress import working
from railbed.cli.screens.train import TrainScreen
from railbed.cli.slurm.attempt import Attempt, perform_attempt, this_attempt
from railbed.cli.verbs.train.files import training_files
from railbed.cli.verbs.train.resume import EarlierRun, setting
from railbed.cli.verbs.train.stages import train_on
from railbed.cli.verbs.watch.page import local_page, page_beside
from railbed.model.cluster import Cluster
from railbed.store.cache import cache_folder
from railbed.train import recipes
from railbed.train.data import tokenizer
from railbed.train.data.prepare import PreparedData, prepare
from railbed.train.recipe import Recipe
from railbed.train.run import TrainRequest
from railbed.train.state.resume import EarlierState
from railbed.watch.series import RunSeries

LOCAL_RANKS = 2
"""Without GPUs; with GPUs there is one rank per GPU."""
NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")


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
        passed = background.passed if background else _continue
        series, attempt = RunSeries(self.sample_seconds), this_attempt()
        request = self._request(site, attempt)
        page = partial(page_beside, request=local_page() if self.watched else None, show=screen.line.print_line)
        stages = partial(train_on, site, request=request, unchecked=self.unchecked, series=series, page=page)
        work = partial(stages, passed=passed)
        run = partial(perform_attempt, attempt) if attempt else partial(perform, "train")
        return run(site, options, work, screen=screen, beside=partial(training_files, series=series))

    def _request(self, site: Cluster, attempt: Attempt | None) -> TrainRequest:
        request = self._continued(attempt) or request_of(recipes.load(self.recipe, self.settings))
        local = all(node.host == "local" for node in site.nodes.values())
        ranks = self.ranks or (_local_ranks() if local else None)
        request = replace(request, ranks=ranks, minimum=self.minimum, transport=self.transport)
        return attempt.adapted(request) if attempt else request

    def _continued(self, attempt: Attempt | None) -> TrainRequest | None:
        """Return the request of a run to continue, or of a job that has been started before; None if there is none."""
        if self.earlier:
            resumes = None if self.from_start else EarlierState(run=self.earlier.wanted)
            return replace(request_of(self.earlier.recipe, self.earlier.job), resumes=resumes)
        if attempt and attempt.history.started:
            return replace(request_of(attempt.recipe, attempt.history.started.run), resumes=attempt.earlier)
        return None


def _continue() -> None:
    """Do nothing once the cluster has passed its check: the terminal stays."""


def request_of(wanted: Recipe, run: str = "") -> TrainRequest:
    """Return the request for a recipe, with a new name unless one is set."""
    prepared = prepared_data(wanted)
    prompt = tuple(tokenizer.encoded(prepared.folder, wanted.data.prompt)) if wanted.data.prompt else ()
    return TrainRequest(
        run=run or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}",
        recipe=wanted.to_plain(),
        tokens=prepared.folder,
        base=None if wanted.model.is_on_nodes else wanted.model.base_folder,
        prompt=prompt,
    )


def prepared_data(wanted: Recipe) -> PreparedData:
    """Return the tokens of a recipe, from the cache or prepared now."""
    with working("preparing the text") as activity:
        return prepare(wanted, cache_folder("tokens"), activity.count)


def _local_ranks() -> int:
    gpus = len(list(NVIDIA_GPUS.iterdir())) if NVIDIA_GPUS.is_dir() else 0
    return gpus or LOCAL_RANKS
