"""Judges a run in progress again and again, and prints what is new, until the run ends."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from rich.text import Text

from railbed.api.exits import INTERRUPTED
from railbed.cli.console import SafeConsole
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.hanging import print_hanging
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.text import INDENT
from railbed.cli.verbs.diagnose.news import News, VerdictNews
from railbed.cli.verbs.diagnose.show import clock_time, show_heading, show_rest, show_verdict
from railbed.model.record import Finding
from railbed.model.text.amount import duration
from railbed.model.text.printable import printable
from railbed.store import read_run_in
from railbed.store.timeline import Timeline

Judge = Callable[[], list[Finding]]
JUDGE_SECONDS = 2.0
"""Between two judgements, at least."""
SHARE_OF_TIME = 0.1
"""The largest share of a core that judging may take: all of the run is judged each time."""


class VerdictView(Protocol):
    """Where news is shown."""

    def begin(self) -> None:
        """Show which run it is."""

    def show(self, news: News) -> None:
        """Show what is new about a verdict."""

    def finish(self, findings: Sequence[Finding]) -> None:
        """Show the end of the run."""


class JsonView:
    """Each piece of news as the finding that it is about."""

    def __init__(self) -> None:
        self._screen = JsonScreen()

    def begin(self) -> None:
        """Print nothing: records say where they belong."""

    def show(self, news: News) -> None:
        """Print the finding."""
        self._screen.show(news.finding)

    def finish(self, findings: Sequence[Finding]) -> None:
        """Print nothing: everything was printed."""


class TextView:
    """Verdicts in full when they begin, in a line when they end."""

    def __init__(self, timeline: Timeline, *, everything: bool, since: float | None) -> None:
        self._console = SafeConsole(highlight=False)
        self._timeline = timeline
        self._everything, self._since = everything, since

    def begin(self) -> None:
        """Print the name of the run."""
        show_heading(self._console, self._timeline)
        sys.stdout.flush()

    def show(self, news: News) -> None:
        """Print a verdict, or that it is over."""
        if news.kind == "begins":
            show_verdict(self._console, news.finding, self._timeline)
        else:
            self._show_line(news)
        sys.stdout.flush()

    def finish(self, findings: Sequence[Finding]) -> None:
        """Print how many verdicts there are."""
        self._console.print()
        self._console.print(f"the run ended at {clock_time(self._timeline.end)}: {self._timeline.summary.status}")
        show_rest(self._console, self._timeline, findings, everything=self._everything, since=self._since)

    def _show_line(self, news: News) -> None:
        finding = news.finding
        about = printable(finding.observed)
        if news.kind == "ends" and finding.since is not None and finding.until is not None:
            about = f"ended at {clock_time(finding.until)}, after {duration(finding.until - finding.since)}"
        word, style = (" over", "green") if news.kind == "ends" else (" withdrawn", "yellow")
        line = Text.assemble((printable(finding.subject), "bold"), f"  {finding.check}  {about}")
        self._console.print()
        print_hanging(self._console, line, first=Text(word, style=style), indent=INDENT)


def follow_run(folder: Path, timeline: Timeline, judge: Judge, view: VerdictView) -> list[Finding]:
    """Show the verdicts about a run until it ends, and return the last ones; Ctrl-C leaves the run alone."""
    sys.stderr.write(f"{folder.name} is running; Ctrl-C closes this view and does not stop the run\n")
    view.begin()
    last: list[Finding] = []
    try:
        run_until_ended(_follow(timeline, judge, view, last))
    except KeyboardInterrupt:
        summary = read_run_in(folder)
        if summary and summary.status == "running":
            sys.stderr.write(
                f"{folder.name} is still running: `railbed diagnose --follow {folder.name}` shows its verdicts again\n"
            )
        raise SystemExit(INTERRUPTED) from None
    return last


async def _follow(timeline: Timeline, judge: Judge, view: VerdictView, last: list[Finding]) -> None:
    news = VerdictNews()
    while timeline.live:
        begin = time.monotonic()
        if timeline.series():  # the first samples come a while after the start
            now = timeline.end  # before judging, which may take a while
            for piece in news.compare(await asyncio.to_thread(judge), now):
                view.show(piece)
        due = begin + max(JUDGE_SECONDS, (time.monotonic() - begin) / SHARE_OF_TIME)
        while timeline.live and time.monotonic() < due:
            await asyncio.sleep(JUDGE_SECONDS)
            await asyncio.to_thread(timeline.refresh)
    last += await asyncio.to_thread(judge)
    for piece in news.compare(last, timeline.end, final=True):
        view.show(piece)
    view.finish(last)
