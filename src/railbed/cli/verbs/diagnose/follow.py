"""Judges a run in progress again and again, and prints what is new, until the run ends.

New are verdicts that begin, end, come back, or are withdrawn. A verdict about the last seconds is not final: samples
are still arriving, and a rule that explains it may need more of them. So it is new when it is there twice in a row, and
over when it has been over for a while.

`--since` names a moment: a time of day, a date with or without a time, or a duration before the run's end.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from rich.text import Text

from railbed.api.exits import INTERRUPTED
from railbed.cli.console import SafeConsole, print_hanging
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import JsonScreen
from railbed.cli.screens.text import INDENT
from railbed.cli.verbs.diagnose.show import clock_time, show_heading, show_rest, show_verdict
from railbed.errors import UsageError
from railbed.model.record import WRONG, Finding, Verdict
from railbed.model.text import duration, printable
from railbed.present import wording
from railbed.rules.judgement import Span
from railbed.store import read_run_in
from railbed.store.timeline import Timeline

OVER_SECONDS = 8.0
"""How long ago it ended. Switches are read every five seconds."""
NEAR_SECONDS = 2.0
"""How far the times of a verdict may move when more samples arrive."""
MISSES = 2
"""How often in a row a verdict is missing until it is withdrawn."""


class News(NamedTuple):
    """Something new about a verdict."""

    kind: Literal["begins", "ends", "withdrawn"]
    finding: Finding
    """With the same `since` whenever it is about the same verdict."""


@dataclass(slots=True)
class _Known:
    """A verdict that was there the last time."""

    finding: Finding
    is_reported: bool = False
    is_over: bool = False
    misses: int = 0


class VerdictNews:
    """Compares the findings about a run with those before."""

    def __init__(self) -> None:
        self._known: list[_Known] = []

    def compare(self, findings: Sequence[Finding], now: float, *, final: bool = False) -> list[News]:
        """Return what is new; `final` findings are those about a run that has ended."""
        news: list[News] = []
        present: list[_Known] = []
        for finding in findings:
            if finding.verdict not in WRONG:
                continue
            known = self._find(finding, except_for=present)
            if known is None:
                known = _Known(finding)
                self._known.append(known)
                news += _begin(known, finding, now) if final or _is_over(finding, now) else ()
            else:
                news += _changes(known, finding, now, final=final)
            known.misses = 0
            present.append(known)
        for known in [known for known in self._known if known not in present]:
            known.misses += 1
            if final or not known.is_reported or known.misses >= MISSES:
                self._known.remove(known)
                news += [News("withdrawn", _withdrawn(known.finding, findings))] if known.is_reported else []
        return news

    def _find(self, finding: Finding, *, except_for: Sequence[_Known]) -> _Known | None:
        """Return the same verdict as it was before: the one that began at about the same time."""
        same = [
            known
            for known in self._known
            if all(known is not other for other in except_for) and _is_same(known.finding, finding)
        ]
        return min(same, key=lambda known: abs((known.finding.since or 0.0) - (finding.since or 0.0)), default=None)


def _changes(known: _Known, finding: Finding, now: float, *, final: bool) -> Iterable[News]:
    """Note a verdict that was there before, and yield what is new about it."""
    before, known.finding = known.finding, replace(finding, since=known.finding.since)
    is_worse = finding.verdict.rank < before.verdict.rank
    is_back = known.is_over and _end(finding) > _end(before) + OVER_SECONDS
    if not known.is_reported or is_worse or is_back:
        yield from _begin(known, known.finding, now)
    elif not known.is_over and (_is_over(finding, now) or (final and finding.until is not None)):
        known.is_over = True
        yield News("ends", known.finding)


def _begin(known: _Known, finding: Finding, now: float) -> Iterable[News]:
    known.is_reported, known.is_over = True, _is_over(finding, now)
    yield News("begins", finding)


def _is_over(finding: Finding, now: float) -> bool:
    return _end(finding) < now - OVER_SECONDS


def _end(finding: Finding) -> float:
    return float("inf") if finding.until is None else finding.until


def _is_same(first: Finding, second: Finding) -> bool:
    if (first.check, first.subject) != (second.check, second.subject):
        return False
    return _span(first).widen(NEAR_SECONDS).overlaps(_span(second))


def _span(finding: Finding) -> Span:
    return Span(float("-inf") if finding.since is None else finding.since, _end(finding))


def _withdrawn(finding: Finding, findings: Iterable[Finding]) -> Finding:
    """Return the finding that replaces a verdict: what explains it, or that it is not found any more."""
    for other in findings:
        if other.verdict is Verdict.SKIPPED and other.since is not None and _is_same(finding, other):
            return replace(other, since=finding.since)
    observed = f"not found any more with later samples: {finding.observed}"
    return replace(finding, verdict=Verdict.OK, observed=observed, remedy="", evidence="")


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


TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", re.ASCII)
DATE = re.compile(r"\d{4}-\d\d-\d\d.*", re.ASCII)
UNITS = ("days", "hours", "minutes", "seconds")
HINT = "a time such as 09:13 or 2026-11-17T09:13, or a duration such as 10m"


def moment(text: str, end: float) -> float:
    """Return the moment in seconds since the epoch; durations and times of day count back from the end of the run."""
    wanted = text.strip()
    since = _before(wanted, end) or _time_of_day(wanted, end) or _date(wanted)
    if since is None:
        raise UsageError(f"--since {text!r} is neither a time nor a duration", hint=HINT)
    if since > end:
        ended = wording.moment(end, "%Y-%m-%d %H:%M:%S")
        raise UsageError(f"--since {text!r} is after the end of the run, {ended}", hint=HINT)
    return since


def _before(text: str, end: float) -> float | None:
    match = DURATION.fullmatch(text)
    if not text or match is None:
        return None
    parts = {unit: int(number) for unit, number in zip(UNITS, match.groups(), strict=True) if number}
    return end - timedelta(**parts).total_seconds()


def _time_of_day(text: str, end: float) -> float | None:
    """Return the last moment before the end with this time of day."""
    match = TIME_OF_DAY.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(number or 0) for number in match.groups())
    try:
        day = datetime.fromtimestamp(end).replace(hour=hour, minute=minute, second=second, microsecond=0)
    except (ValueError, OverflowError, OSError):
        return None
    return (day if day.timestamp() <= end else day - timedelta(days=1)).timestamp()


def _date(text: str) -> float | None:
    """Return the moment of a date; a time without a zone is local."""
    if not DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
