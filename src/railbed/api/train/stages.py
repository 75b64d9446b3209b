"""The stages of a training: check the cluster, estimate the memory, train; with samples beside them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path

from railbed.api.train.restarts import RestartChecks
from railbed.check.book import essential_checks, probes_needed, restart_checks
from railbed.check.changed import LaunchState
from railbed.check.rules import other_run, rendezvous_free, torch_equal
from railbed.check.run import check
from railbed.errors import ToolMissing, UserError, os_reason
from railbed.fleet import Fleet
from railbed.fleet.sample import sample
from railbed.launch import fabric
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.events.general import progress
from railbed.model.reading import DeviceFacts
from railbed.model.record import Finding, Record, Verdict
from railbed.report.reading.metrics import FILE, as_json, metrics
from railbed.report.reading.run import read
from railbed.store import write_atomically
from railbed.store.find import jobs_in_progress
from railbed.store.tensorboard import TensorBoardLogs
from railbed.train.capacity import memory as capacity
from railbed.train.capacity.fit import require_libraries
from railbed.train.data import tokenizer
from railbed.train.progress.steps import TrainingEnd
from railbed.train.recipe import Recipe
from railbed.train.run import TrainRequest, train
from railbed.watch.lost import LostNodes
from railbed.watch.run import RunSeries, alongside


class NotFit(UserError):
    """The cluster cannot train as it is."""


async def train_on(
    site: Cluster,
    fleet: Fleet,
    *,
    request: TrainRequest,
    unchecked: bool,
    series: RunSeries,
    passed: Callable[[], None],
) -> AsyncGenerator[Record, None]:
    """Check the cluster, unless that is skipped, call `passed`, and train on it."""
    ending = TrainingEnd(site.nodes)
    stages = _stages(site, fleet, request, unchecked=unchecked, passed=passed)
    if series.interval:
        samples = sample(site, fleet, series.take, interval=series.interval, training=request.folder)
        stages = alongside(stages, samples)
    stages = LostNodes(site, fleet).beside(stages)
    async with aclosing(stages) as records:
        yield _report_start(request, series.interval)
        async for record in records:
            ending.add_record(record)
            yield record
    left = request.departure is not None and request.departure.is_requested
    if not left and (fell_short := ending.event()):
        yield fell_short


def _report_start(request: TrainRequest, interval: float) -> events.TrainingStarted:
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
    site: Cluster, fleet: Fleet, request: TrainRequest, *, unchecked: bool, passed: Callable[[], None]
) -> AsyncGenerator[Record, None]:
    """Check, estimate, train. The check also reads what the others need: each round to the nodes takes a while."""
    known: dict[str, DeviceFacts] = {}
    if not unchecked and len(site.nodes) > 1:
        async with aclosing(_check_nodes(site, fleet, known)) as findings:
            async for record in findings:
                yield record
    if not unchecked:
        await require_libraries(site, fleet, Recipe.read(request.recipe))
        yield progress("reading the memory of the nodes")
        async with aclosing(capacity.check_memory(site, fleet, request, known=known)) as estimates:
            async for record in estimates:
                yield record
    passed()
    checks = RestartChecks(site, fleet, LaunchState(site, known))
    async with aclosing(checks.beside(train(site, fleet, request, known=known))) as records:
        async for record in records:
            yield _readable(record, request)


async def _check_nodes(site: Cluster, fleet: Fleet, known: dict[str, DeviceFacts]) -> AsyncGenerator[Record, None]:
    """Check what training needs; nodes that do not answer are left to the launch, which can do without them.

    `known` gets the facts of every node.
    """
    wrong: list[Finding] = []
    probes = (*capacity.FACTS, *fabric.FACTS, *probes_needed(restart_checks(), site))
    # Runs of one machine alone meet on its loopback, where they do not get in each other's way.
    checks = (*essential_checks(), *([other_run.RULE] if len(site.nodes) > 1 else []))
    checking = check(site, fleet, checks, extra_probes=probes, devices=known, again=False, runs=jobs_in_progress())
    async with aclosing(checking) as records:
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
    is_failure = finding.verdict is Verdict.FAIL and finding.check != "reachable"
    return is_failure or rendezvous_free.is_taken(finding) or other_run.is_present(finding)


def _readable(record: Record, request: TrainRequest) -> Record:
    """Add the text of a sample to its tokens."""
    match record:
        case events.TextSampled(tokens=generated) if request.tokens and generated is not None:
            return replace(record, text=tokenizer.decode_tokens(request.tokens, generated))
    return record


@contextmanager
def training_files(run: Path, *, series: RunSeries, warn: Callable[[str], None]) -> Iterator[Callable[[Record], None]]:
    """Store samples, log the records, and write the metrics when the run has ended, normally or not.

    `warn` gets a sentence about a file that cannot be written; it does not change how the run ended.
    """
    logs = TensorBoardLogs(run)
    try:
        with series.store_in(run):
            yield logs.take
    finally:
        logs.close()
        if logs.problem:
            warn(logs.problem)
        try:
            write_atomically(run / FILE, as_json(metrics(read(run))), mode=0o600)
        except OSError as error:
            warn(f"{run / FILE} could not be written: {os_reason(error)}")
