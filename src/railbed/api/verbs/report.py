"""`railbed.report` and `railbed.compare`: pages and data about runs, and the hand-over page of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from railbed.api.clusters import ClusterLike
from railbed.api.reach import Reach
from railbed.api.stored import Run, folder_of
from railbed.errors import UsageError
from railbed.report import Report, describe, read
from railbed.report.compare.comparison import RunComparison, compare_runs
from railbed.report.formats.data import as_csv, as_json
from railbed.report.formats.html import as_html
from railbed.report.formats.markdown import as_markdown
from railbed.report.reading.run import RunData, with_timeline
from railbed.store import ANY_RUN, NEWEST, Store

if TYPE_CHECKING:
    from railbed.report.handover import HandoverData

ReportFormat = Literal["html", "md", "json", "csv"]


@dataclass(frozen=True, slots=True)
class HandoverPage:
    """The page about a cluster, and what it was made from."""

    data: HandoverData
    document: Report
    content: bytes


_RENDERERS: dict[str, Callable[[Report], bytes]] = {
    "html": lambda document: as_html(document).encode(),
    "md": lambda document: as_markdown(document).encode(),
    "json": as_json,
}


def report(
    run: Run | str | os.PathLike[str] = NEWEST,
    *,
    cluster: ClusterLike = None,
    form: ReportFormat = "html",
    reach: Reach | None = None,
    store: Store | None = None,
) -> bytes:
    """Return a report on a run: a page that opens anywhere without a network, Markdown, JSON, or a table as CSV.

    `run` is a run, its name, the path of its folder, or the newest. With `cluster`, a cluster or the path of its file,
    it is the hand-over page of that cluster instead, made from its stored runs, or from the recording that `reach`
    names: no machine is contacted.
    """
    if cluster is not None or (reach is not None and reach.replay is not None):
        return render_handover(cluster, reach or Reach(), store or Store(), form).content
    folder = folder_of(run, ANY_RUN, store)
    return render_report(describe(read_all(folder)), folder, form)


def compare(
    before: Run | str | os.PathLike[str], after: Run | str | os.PathLike[str], *, store: Store | None = None
) -> RunComparison:
    """Compare two runs: which numbers changed, and by how much beyond chance; which settings differ; what only one has.

    Its `changed`, `unclear` and `unchanged` numbers have a name, labels, the values before and after, and a share.
    """
    first, second = (folder_of(run, ANY_RUN, store) for run in (before, after))
    return compare_runs(read(first), read(second))


def render_handover(cluster: ClusterLike, reach: Reach, store: Store, form: ReportFormat) -> HandoverPage:
    """Return the hand-over page of a cluster in a format."""
    if form == "csv":
        raise UsageError("a page about a cluster has no table of measurements", hint="`--format json` has its data")
    # Imported here because reports on runs need nothing of check and bench.
    from railbed.api.handover import read_handover
    from railbed.report.handover import describe_cluster

    data = read_handover(cluster, reach, store)
    document = describe_cluster(data)
    return HandoverPage(data, document, _RENDERERS[form](document))


def read_all(folder: Path) -> RunData:
    """Return a run's data with its series, and with the verdicts about them."""
    return _with_verdicts(with_timeline(read(folder), folder), folder)


def render_report(document: Report, folder: Path, form: ReportFormat) -> bytes:
    """Return the report on a run in a format."""
    return as_csv(folder) if form == "csv" else _RENDERERS[form](document)


def _with_verdicts(data: RunData, folder: Path) -> RunData:
    """Return a run's data with what happened, if the run has time series and its cluster file is undamaged."""
    if data.timeline is None or not data.timeline.series():
        return data
    # Imported here because most runs have none.
    from railbed.api.verbs.diagnose import verdicts_of

    with suppress(UsageError):
        return replace(data, verdicts=verdicts_of(folder, data.timeline))
    return data
