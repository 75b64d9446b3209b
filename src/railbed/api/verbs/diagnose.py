"""`railbed.diagnose`: what happened during a run, from its time series."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from railbed.api.kinds import SAMPLED
from railbed.api.stored import Run, folder_of
from railbed.catalog import choose
from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.errors import ClusterFileError, UsageError
from railbed.model.cluster import Cluster
from railbed.model.record import Finding
from railbed.present.wording import advise
from railbed.rules.engine import judge
from railbed.rules.site import Site
from railbed.store import NEWEST, Store
from railbed.store.find import cluster_to_read
from railbed.store.timeline import Timeline

CLUSTER_OPTIONS = ("-c", "--cluster")


def diagnose(
    run: Run | str | os.PathLike[str] = NEWEST,
    *,
    rules: Sequence[str] = (),
    since: float | None = None,
    store: Store | None = None,
) -> list[Finding]:
    """Explain what happened during a run that has time series: what, since when, where, how certain, and what to do.

    `run` is a run, its name, the path of its folder, or the newest with time series; it may be in progress. `rules`
    chooses rules by name; `since` leaves out what ended before this time. What is wrong comes first, in order of time.
    """
    folder = folder_of(run, SAMPLED, store)
    return judge_run(folder, Timeline(folder), rules=rules, since=since)


def judge_run(
    folder: Path, timeline: Timeline, *, rules: Sequence[str] = (), since: float | None = None
) -> list[Finding]:
    """Return the findings about a run from a moment on; those about no time are about all of it."""
    if not timeline.series():
        raise UsageError(
            f"{folder.name} has no time series to diagnose", hint="`railbed train` and `railbed watch` record them"
        )
    findings = verdicts_of(folder, timeline, rules=rules)
    if since is None:
        return findings
    return [finding for finding in findings if finding.until is None or finding.until >= since]


def verdicts_of(folder: Path, timeline: Timeline, *, rules: Sequence[str] = ()) -> list[Finding]:
    """Return the verdicts about a run, with commands that can be pasted as they are."""
    listing = f"the rules are {', '.join(DIAGNOSE_BOOK.rules)}"
    chosen = [choose(DIAGNOSE_BOOK.rules, name, kind="rule", listing=listing) for name in rules] or None
    findings = judge(DIAGNOSE_BOOK, Site(_cluster(folder), timeline=timeline), chosen)
    return list(_complete_remedies(findings, timeline.summary.id, cluster_file_of(timeline.summary.arguments)))


def cluster_file_of(arguments: Sequence[str]) -> Path | None:
    """Return the cluster file that a run was started with; None for the default."""
    for word, following in pairwise([*arguments, ""]):
        option, _, value = word.partition("=")
        if option in CLUSTER_OPTIONS and (value or following):
            return Path(value or following)
        if word.startswith("-c") and not word.startswith("--") and len(word) > 2:
            return Path(word[2:])
    return None


def _cluster(folder: Path) -> Cluster:
    try:
        return cluster_to_read(folder)
    except ClusterFileError as error:
        raise UsageError(
            f"{folder.name} has no readable copy of its cluster file: {str(error).splitlines()[0]}",
            hint="the run was changed or damaged: restore the file, or diagnose another run",
        ) from error


def _complete_remedies(findings: Iterable[Finding], run: str, file: Path | None) -> Iterable[Finding]:
    for finding in findings:
        record = advise(replace(finding, remedy=finding.remedy.replace(" RUN`", f" {run}`")), file)
        if isinstance(record, Finding):
            yield record
