"""`railbed.report` and `railbed.compare`: pages and data about runs."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from railbed.api.stored import Run, folder_of
from railbed.errors import UsageError
from railbed.report import Report, describe, read
from railbed.report.compare.comparison import RunComparison, compare_runs
from railbed.report.formats.data import as_csv, as_json
from railbed.report.formats.html import as_html
from railbed.report.formats.markdown import as_markdown
from railbed.report.reading.run import RunData, with_timeline
from railbed.store import ANY_RUN, NEWEST, Store

ReportFormat = Literal["html", "md", "json", "csv"]


def report(
    run: Run | str | os.PathLike[str] = NEWEST,
    *,
    form: ReportFormat = "html",
    store: Store | None = None,
) -> bytes:
    """Return a report on a run: a page that opens anywhere without a network, Markdown, JSON, or a table as CSV.

    `run` is a run, its name, the path of its folder, or the newest.
    """
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


def read_all(folder: Path) -> RunData:
    """Return a run's data with its series, and with the verdicts about them."""
    return _with_verdicts(with_timeline(read(folder), folder), folder)


def render_report(document: Report, folder: Path, form: ReportFormat) -> bytes:
    """Return the report on a run in a format."""
    match form:
        case "html":
            return as_html(document).encode()
        case "md":
            return as_markdown(document).encode()
        case "json":
            return as_json(document)
        case "csv":
            return as_csv(folder)


def _with_verdicts(data: RunData, folder: Path) -> RunData:
    """Return a run's data with what happened, if the run has time series and its cluster file is undamaged."""
    if data.timeline is None or not data.timeline.series():
        return data
    # Imported here because most runs have none.
    from railbed.api.verbs.diagnose import verdicts_of

    with suppress(UsageError):
        return replace(data, verdicts=verdicts_of(folder, data.timeline))
    return data
