"""railbed train"""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer
from rich.table import Table

from railbed.check.judge import essential_checks
from railbed.check.rules import torch_equal
from railbed.check.run import check
from railbed.cli.alongside import alongside
from railbed.cli.background.attach import attach_run
from railbed.cli.background.detach import detach_process
from railbed.cli.background.runs import refuse_mixtures
from railbed.cli.background.stop import stop_run
from railbed.cli.console import SafeConsole
from railbed.cli.exits import OK
from railbed.cli.options import ClusterOption, JsonOption, Options, TimeoutOption
from railbed.cli.perform import perform
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.progress import working
from railbed.cli.screens.train import TrainScreen
from railbed.cli.series import RunSeries
from railbed.cli.site import built_in_local, given_cluster
from railbed.cli.slurm.attempt import Attempt, perform_attempt, this_attempt
from railbed.cli.verbs.train.environment import show_env
from railbed.cli.verbs.train.files import training_files
from railbed.cli.verbs.train.options import (
    AttachOption,
    DetachOption,
    EnvironmentOption,
    FromStartOption,
    ListOption,
    MinimumOption,
    RanksOption,
    RecipeArgument,
    ResumeOption,
    SampleOption,
    SettingsOption,
    ShowDataOption,
    StopOption,
    TransportOption,
    UncheckedOption,
    WatchOption,
)
from railbed.cli.verbs.train.resume import EarlierRun, earlier_run, setting, site_of
from railbed.cli.verbs.watch.page import local_page, page_beside
from railbed.errors import ToolMissing, UserError
from railbed.fleet import Fleet
from railbed.fleet.sample import sample
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.progress import progress
from railbed.model.record import Finding, Record, Verdict
from railbed.store.cache import cache_folder
from railbed.train import recipes
from railbed.train.capacity.libraries import require_libraries
from railbed.train.capacity.memory import check_memory
from railbed.train.data import tokenizer
from railbed.train.data.prepare import PreparedData, prepare
from railbed.train.progress.outcome import Ending
from railbed.train.recipe import Recipe
from railbed.train.run import TrainRequest, train
from railbed.train.state.resume import EarlierState

LOCAL_RANKS = 2
"""Without GPUs; with GPUs there is one rank per GPU."""
NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")
PageOf = Callable[[Path | None], AbstractAsyncContextManager[None]]
"""Serves the page of a run in a folder."""


class NotFit(UserError):
    """The cluster cannot train as it is."""


def train_command(
    context: typer.Context,
    recipe: RecipeArgument = "tiny",
    settings: SettingsOption = None,
    cluster: ClusterOption = None,
    ranks: RanksOption = None,
    minimum: MinimumOption = 1,
    transport: TransportOption = "auto",
    resume: ResumeOption = None,
    from_start: FromStartOption = False,
    detach: DetachOption = False,
    attach: AttachOption = None,
    stop: StopOption = None,
    environment: EnvironmentOption = False,
    shown: ShowDataOption = 0,
    listing: ListOption = False,
    unchecked: UncheckedOption = False,
    sample_seconds: SampleOption = 1.0,
    watched: WatchOption = False,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
) -> int:
    """Train on the cluster, survive failures, and print a summary.

    Example: railbed train tiny --set steps=200
    """
    refuse_mixtures(context)
    if (code := _start_nothing(attach, stop, listing=listing, as_json=as_json)) is not None:
        return code
    if environment:
        return show_env(given_cluster(cluster, None) or built_in_local(), timeout=timeout, as_json=as_json)
    if shown:
        return _show_data(recipes.load(recipe, settings or []), shown, as_json=as_json)
    attempt = this_attempt()
    unseen = detach_process(as_json=as_json) if detach else None
    earlier = earlier_run(resume) if resume is not None else None
    site = site_of(earlier, cluster) if earlier else given_cluster(cluster, None) or built_in_local()
    if earlier:
        ranks = ranks or earlier.options.get("ranks")
        minimum = setting(context, earlier, "minimum", minimum)
        transport = setting(context, earlier, "transport", transport)
        sample_seconds = setting(context, earlier, "sample_seconds", sample_seconds)
    series = RunSeries(sample_seconds)
    request = _continued(earlier, from_start=from_start) if earlier else _restarted(attempt)
    request = request or _request(recipes.load(recipe, settings or []))
    local = all(node.host == "local" for node in site.nodes.values())
    request = replace(request, ranks=ranks or (_local_ranks() if local else None), minimum=minimum, transport=transport)
    request = attempt.adapted(request) if attempt else request
    options = Options(json=as_json, record=None, replay=None, timeout=timeout)
    screen = unseen or (JsonScreen() if as_json else TrainScreen(verbose=False))
    return _perform(site, request, options, screen, attempt, unchecked=unchecked, series=series, watched=watched)


def _perform(
    site: Cluster,
    request: TrainRequest,
    options: Options,
    screen: Screen,
    attempt: Attempt | None,
    *,
    unchecked: bool,
    series: RunSeries,
    watched: bool,
) -> int:
    page = partial(page_beside, request=local_page() if watched else None, show=screen.line.print_line)
    work = partial(_work, site, request=request, unchecked=unchecked, series=series, page=page)
    run = partial(perform_attempt, attempt) if attempt else partial(perform, "train")
    return run(site, options, work, screen=screen, beside=partial(training_files, series=series))


def _start_nothing(attach: str | None, stop: str | None, *, listing: bool, as_json: bool) -> int | None:
    """Do what needs no start, and return the exit code; None if a training is to start."""
    if attach is not None:
        return attach_run(attach, as_json=as_json)
    if stop is not None:
        return stop_run(stop, as_json=as_json)
    return _list_recipes(as_json=as_json) if listing else None


def _show_data(wanted: Recipe, count: int, *, as_json: bool) -> int:
    # Imported here because it loads numpy, which starts a thread, and `--detach` forks.
    from railbed.cli.verbs.train.data import show_data

    return show_data(_prepared(wanted), wanted.model.context, count, as_json=as_json)


def _local_ranks() -> int:
    gpus = len(list(NVIDIA_GPUS.iterdir())) if NVIDIA_GPUS.is_dir() else 0
    return gpus or LOCAL_RANKS


def _prepared(wanted: Recipe) -> PreparedData:
    with working("preparing the text") as activity:
        return prepare(wanted, cache_folder() / "tokens", activity.count)


def _request(wanted: Recipe, run: str = "") -> TrainRequest:
    """Return the request for a recipe, with a new name unless one is set."""
    prepared = _prepared(wanted)
    prompt = tuple(tokenizer.encoded(prepared.folder, wanted.data.prompt)) if wanted.data.prompt else ()
    return TrainRequest(
        run=run or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}",
        recipe=wanted.to_plain(),
        tokens=prepared.folder,
        base=None if wanted.model.is_on_nodes else wanted.model.base_folder,
        prompt=prompt,
    )


def _restarted(attempt: Attempt | None) -> TrainRequest | None:
    """Return the request of a job that has been started before; None if there is none."""
    if attempt is None or attempt.history.started is None:
        return None
    return replace(_request(attempt.recipe, attempt.history.started.run), resumes=attempt.earlier)


def _continued(earlier: EarlierRun, *, from_start: bool) -> TrainRequest:
    return replace(
        _request(earlier.recipe, earlier.job), resumes=None if from_start else EarlierState(run=earlier.wanted)
    )


async def _work(
    site: Cluster, fleet: Fleet, *, request: TrainRequest, unchecked: bool, series: RunSeries, page: PageOf
) -> AsyncGenerator[Record, None]:
    ending = Ending(site.nodes)
    stages = _stages(site, fleet, request, unchecked=unchecked)
    if series.interval:
        stages = alongside(stages, sample(site, fleet, series.take, interval=series.interval))
    # The page comes first: with --detach, its link, which may contain a token, is printed while there is a terminal.
    async with page(series.folder), aclosing(stages) as records:
        yield _started(request, series.interval)
        async for record in records:
            ending.add_record(record)
            yield record
    left = request.departure is not None and request.departure.is_requested
    if not left and (fell_short := ending.event()):
        yield fell_short


def _started(request: TrainRequest, interval: float) -> events.TrainingStarted:
    return events.TrainingStarted(
        subject=request.run,
        run=request.run,
        recipe=dict(request.recipe),
        ranks=request.ranks,
        minimum=request.minimum,
        transport=request.transport,
        resumes=request.resumes.run if request.resumes else "",
        sample=interval,
    )


async def _stages(
    site: Cluster, fleet: Fleet, request: TrainRequest, *, unchecked: bool
) -> AsyncGenerator[Record, None]:
    """Check, estimate, train."""
    if not unchecked and len(site.nodes) > 1:
        async with aclosing(_checked(site, fleet)) as findings:
            async for record in findings:
                yield record
    if not unchecked:
        await require_libraries(site, fleet, Recipe.read(request.recipe))
        yield progress("reading the memory of the nodes")
        async with aclosing(check_memory(site, fleet, request)) as estimates:
            async for record in estimates:
                yield record
    async with aclosing(train(site, fleet, request)) as records:
        async for record in records:
            yield _readable(record, request)


async def _checked(site: Cluster, fleet: Fleet) -> AsyncGenerator[Record, None]:
    """Check what training needs; nodes that do not answer are left to the launch, which can do without them."""
    wrong: list[Finding] = []
    async with aclosing(check(site, fleet, essential_checks(), again=False)) as records:
        async for record in records:
            yield record
            if isinstance(record, Finding) and (_prevents(record) or torch_equal.is_missing(record)):
                wrong.append(record)
    if missing := [finding for finding in wrong if torch_equal.is_missing(finding)]:
        reasons = "; ".join(f"{finding.subject}: {finding.observed}" for finding in missing[:3])
        raise ToolMissing(f"not every node can train: {reasons}", hint=missing[0].remedy)
    if wrong:
        reasons = "; ".join(
            f"{finding.subject}: {finding.observed}, expected {finding.expected} ({finding.check})"
            for finding in wrong[:3]
        )
        more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise NotFit(f"the cluster cannot train as it is: {reasons}{more}", hint="`railbed check` shows the remedies")


def _prevents(finding: Finding) -> bool:
    return finding.verdict is Verdict.FAIL and finding.check != "reachable"


def _readable(record: Record, request: TrainRequest) -> Record:
    """Add the text of a sample to its tokens."""
    match record:
        case events.TextSampled(tokens=generated) if request.tokens and generated is not None:
            return replace(record, text=tokenizer.decoded(request.tokens, generated))
    return record


def _list_recipes(*, as_json: bool) -> int:
    if as_json:
        for name, description in recipes.descriptions().items():
            sys.stdout.write(json.dumps({"kind": "recipe", "name": name, "description": description}) + "\n")
        return OK
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, description in recipes.descriptions().items():
        table.add_row(f"[bold]{name}[/bold]", description)
    SafeConsole(highlight=False).print(table)
    return OK
