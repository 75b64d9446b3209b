"""What the hand-over page of a cluster is made from: its file, recordings, stored runs, the baseline and the notes.

Nothing is contacted: facts are those that runs recorded, of each device and probe the newest.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from math import isfinite
from pathlib import Path
from typing import Any

from railbed import __version__
from railbed.api.clusters import ClusterLike, cluster_of
from railbed.api.reach import Reach
from railbed.api.site import recording_folder
from railbed.api.thread import run_apart
from railbed.bench import baseline as baselines
from railbed.check.book import CHECK_BOOK, usual_checks
from railbed.check.run import check
from railbed.errors import UsageError
from railbed.fleet import Fleet, read_facts
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Finding, Measurement
from railbed.model.statistics import median
from railbed.model.text import exists
from railbed.present.bench import MeasurementGroup, groups
from railbed.present.wording import DEFAULT_CLUSTER, advise
from railbed.report.handover import HandoverData, notes
from railbed.report.handover.data import BestFigure, FigureOfBaseline, SavedBaseline
from railbed.report.handover.inventory import PROBES, inventory
from railbed.report.reading.run import RunData, read
from railbed.store import RunSummary, Store, is_own_folder, list_runs, read_records
from railbed.store.run import RAW
from railbed.transport.base import targets_of
from railbed.transport.replay import replay_connector

MOST_READ = 10
"""Runs whose recorded outputs are read for facts."""
MOST_MEASURED = 10
"""Runs of each verb whose measurements are compared."""
TRAINED = ("tokens_per_second", "mfu")
Devices = Mapping[str, DeviceFacts]


def read_handover(cluster: ClusterLike, reach: Reach, store: Store) -> HandoverData:
    """Return what the page about a cluster is made from."""
    site = cluster_of(cluster, reach, discovers=False)
    file = cluster_file(cluster, reach)
    runs = [run for run in list_runs(store.folder) if run.cluster == site.name]
    foreign = frozenset(run.id for run in runs if not is_own_folder(store.folder / run.id))
    # Those of this user come first: others may have put theirs into a shared folder.
    own_first = sorted(runs, key=lambda run: run.id in foreign)
    checked: RunData | None
    if reach.replay is not None:
        devices, checked = _judge_recording(site, recording_folder(reach.replay), reach)
    else:
        devices = run_apart(_recorded_facts(site, [store.folder / run.id for run in own_first], reach.timeout))
        checked = _newest_check(own_first, store.folder)
    notes_file = notes.path_beside(file) if file else None
    return HandoverData(
        cluster=site,
        file=file,
        made=time.time(),
        inventory=list(inventory(site, devices)),
        check=_advise(checked, file) if checked else None,
        recording=reach.replay,
        runs=runs,
        foreign=foreign,
        runs_folder=store.folder,
        baseline=_baseline(file) if file else None,
        best=[*_best_measured(runs, store.folder), *_best_trained(runs, store.folder)],
        notes_file=notes_file,
        notes=notes.read(notes_file, site.name) if notes_file else "",
    )


def cluster_file(cluster: ClusterLike, reach: Reach) -> Path | None:
    """Return the file of a cluster; None for that of a recording, for this machine, and for a cluster without one."""
    if isinstance(cluster, Cluster) or (cluster is None and reach.replay is not None):
        return None
    file = Path(cluster or DEFAULT_CLUSTER)
    return file if exists(file) else None


async def _recorded_facts(cluster: Cluster, folders: Sequence[Path], timeout: float) -> Devices:
    """Return the newest facts of each device, from the outputs that runs recorded."""
    known = {name: DeviceFacts(device=name) for name in (*cluster.nodes, *cluster.switches, *cluster.bmcs())}
    recorded = [folder for folder in folders if (folder / RAW).is_dir()]
    for folder in recorded[:MOST_READ]:
        lacking = {name: probes for name, facts in known.items() if (probes := _unread(cluster, name, facts))}
        probes = [probe for probe in PROBES if any(probe in unread for unread in lacking.values())]
        if not probes:
            break
        with suppress(UsageError):  # a run that recorded nothing, or whose recording is damaged
            async with _replay(cluster, recording_folder(folder), timeout) as fleet:
                for name, facts in (await read_facts(fleet, cluster, probes, only=lacking)).items():
                    known[name] = _complete(known[name], facts)
    return known


def _replay(cluster: Cluster, folder: Path, timeout: float) -> Fleet:
    return Fleet(targets_of(cluster), replay_connector(folder), timeout=timeout)


def _unread(cluster: Cluster, device: str, facts: DeviceFacts) -> list[Probe[Any]]:
    kind = "node" if device in cluster.nodes else "switch" if device in cluster.switches else "bmc"
    return [probe for probe in PROBES if probe.runs_on == kind and probe.name not in facts.readings]


def _complete(newer: DeviceFacts, older: DeviceFacts) -> DeviceFacts:
    """Return facts with those of an older run that are not known yet."""
    readings = {
        name: readings
        for name, readings in older.readings.items()
        if any(isinstance(reading, Known) for reading in readings)
    }
    return DeviceFacts(device=newer.device, readings={**readings, **newer.readings})


def _judge_recording(cluster: Cluster, folder: Path, reach: Reach) -> tuple[Devices, RunData]:
    """Return the facts of a recording, and what `check` says about it."""
    devices: dict[str, DeviceFacts] = {}

    async def findings() -> list[Finding]:
        async with _replay(cluster, folder, reach.timeout) as fleet:
            checking = check(cluster, fleet, usual_checks(), extra_probes=PROBES, devices=devices)
            async with aclosing(checking) as records:
                return [record async for record in records if isinstance(record, Finding)]

    judged = run_apart(findings())
    received = [
        reading.output.received
        for facts in devices.values()
        for readings in facts.readings.values()
        for reading in readings
        if isinstance(reading, Known)
    ]
    summary = RunSummary(
        id=folder.name,
        verb="check",
        arguments=["check", "--replay", str(reach.replay)],
        cluster=cluster.name,
        version=__version__,
        started=max(received, default=0.0),
        status="done",
    )
    return devices, RunData(summary=summary, findings=judged)


def _newest_check(runs: Sequence[RunSummary], folder: Path) -> RunData | None:
    """Return the newest check that judged all rules and was completed; one of some rules only if there is no other."""
    checks = [run for run in runs if run.verb == "check" and run.status == "done"]
    of_all = [run for run in checks if not {*run.arguments} & CHECK_BOOK.rules.keys()]
    for run in [*of_all, *checks]:
        with suppress(UsageError):
            return read(folder / run.id)
    return None


def _advise(checked: RunData, file: Path | None) -> RunData:
    """Return a check whose remedies have the cluster file in their commands."""
    records = (advise(finding, file) for finding in checked.findings)
    return RunData(summary=checked.summary, findings=[record for record in records if isinstance(record, Finding)])


def _baseline(file: Path) -> SavedBaseline | None:
    path = baselines.path_beside(file)
    saved = baselines.read(path)
    if saved is None:
        return None
    figures = [
        FigureOfBaseline(measure=measure, middle=entry.middle, spread=entry.spread, count=entry.count, unit=entry.unit)
        for measure, entry in saved.measures.items()
    ]
    return SavedBaseline(file=path, run=saved.run, saved=saved.saved, figures=figures)


def _best_measured(runs: Sequence[RunSummary], folder: Path) -> Iterator[BestFigure]:
    """Yield the best median over all paths of each measure of each test, whichever message size had it."""
    best: dict[tuple[str, str], BestFigure] = {}
    for run in [run for run in runs if run.verb == "bench"][:MOST_MEASURED]:
        for group in groups(_measurements(folder / run.id)):
            is_higher_better = baselines.higher_is_better(group.measure)
            if is_higher_better is None:
                continue
            figure, key = _best_of(group, run), (group.title, group.measure)
            former = best.get(key)
            if isfinite(figure.value) and (former is None or (figure.value > former.value) is is_higher_better):
                best[key] = figure
    yield from best.values()


def _best_of(group: MeasurementGroup, run: RunSummary) -> BestFigure:
    value = group.summary.median
    return BestFigure(
        what=group.title, size=group.size, measure=group.measure, value=value, unit=group.unit, run=run.id
    )


def _best_trained(runs: Sequence[RunSummary], folder: Path) -> Iterator[BestFigure]:
    """Yield the best median over the steps of a training."""
    best: dict[str, BestFigure] = {}
    for run in [run for run in runs if run.verb == "train"][:MOST_MEASURED]:
        values: dict[tuple[str, str], list[float]] = {}
        for measured in _measurements(folder / run.id, TRAINED):
            values.setdefault((measured.name, measured.unit), []).append(measured.value)
        for (name, unit), steps in values.items():
            middle = median(steps)
            if isfinite(middle) and (name not in best or middle > best[name].value):
                best[name] = BestFigure(what="training", size=None, measure=name, value=middle, unit=unit, run=run.id)
    yield from best.values()


def _measurements(folder: Path, names: Collection[str] = ()) -> Iterator[Measurement]:
    with suppress(OSError):  # a run that died before its first record
        for record in read_records(folder, Measurement, names=names):
            if isinstance(record, Measurement):
                yield record
