"""Verdicts for people: what, where, since when, how certain, the evidence, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from railbed.cli.console import SafeConsole, print_hanging
from railbed.cli.screens.text import INDENT, STYLES
from railbed.model.record import WRONG, Finding, Verdict
from railbed.model.text import duration, plural, printable
from railbed.present.wording import moment
from railbed.store.timeline import StepAt, Timeline


def show_verdicts(
    timeline: Timeline, findings: Sequence[Finding], *, everything: bool, since: float | None = None
) -> None:
    """Print the verdicts about a run, in order of time."""
    console = SafeConsole(highlight=False)
    show_heading(console, timeline)
    for finding in findings:
        if finding.verdict in WRONG:
            show_verdict(console, finding, timeline)
    show_rest(console, timeline, findings, everything=everything, since=since)


def show_heading(console: SafeConsole, timeline: Timeline) -> None:
    """Print which run it is, and what could not be read of it."""
    summary = timeline.summary
    lasted = duration(max(0.0, timeline.end - timeline.start))
    about = f"  {summary.verb} on {summary.cluster}, {lasted}{' so far' if timeline.live else ''}"
    print_hanging(console, Text.assemble((printable(summary.id), "bold"), printable(about)), indent=2)
    if timeline.unreadable:
        count = plural(timeline.unreadable, "damaged part")
        note = f"{count} of this run could not be read: verdicts may be missing"
        print_hanging(console, Text(note, style="yellow"), indent=2)


def show_rest(
    console: SafeConsole,
    timeline: Timeline,
    findings: Sequence[Finding],
    *,
    everything: bool,
    since: float | None = None,
) -> None:
    """Print how many verdicts there are, and the other findings if everything is to be shown."""
    wrong = [finding for finding in findings if finding.verdict in WRONG]
    rest = [finding for finding in findings if finding.verdict not in WRONG]
    if everything and rest:
        console.print()
        for finding in rest:
            _show_line(console, finding)
    console.print()
    after = "" if since is None else f" since {_moment(since, timeline.end)}"
    print_hanging(console, _conclusion(wrong, rest, everything=everything, after=after), indent=2)


def show_verdict(console: SafeConsole, finding: Finding, timeline: Timeline) -> None:
    """Print a verdict with its evidence and what to do."""
    console.print()
    where = Text.assemble((printable(finding.subject), "bold"), f"  {finding.check}")
    when = _when(finding, timeline)
    certain = f"  {finding.certainty}" if finding.certainty else ""
    line = Text.assemble(where, f"  {when}" if when else "", (certain, "dim"))
    print_hanging(console, line, first=_verdict(finding.verdict), indent=INDENT)
    expected = f"; expected: {finding.expected}" if finding.expected else ""
    _print(console, Text(printable(f"{finding.observed}{expected}")))
    for row in finding.evidence.splitlines():
        _print(console, Text(printable(row), style="dim"))
    first = Text(f"{' ' * INDENT}→ ", style="cyan")
    print_hanging(console, Text(printable(finding.remedy), style="cyan"), first=first, indent=INDENT + 2)


def _show_line(console: SafeConsole, finding: Finding) -> None:
    place = "" if finding.subject == "cluster" else f"  {printable(finding.subject)}"
    text = Text.assemble((finding.check, "bold"), f"{place}  {printable(finding.observed)}", style="dim")
    print_hanging(console, text, first=_verdict(finding.verdict), indent=INDENT)


def _print(console: SafeConsole, text: Text) -> None:
    print_hanging(console, text, first=Text(" " * INDENT), indent=INDENT)


def _verdict(verdict: Verdict) -> Text:
    return Text.assemble(" ", (verdict.value, STYLES[verdict]))


def _when(finding: Finding, timeline: Timeline) -> str:
    """Return `at 12:03:14 for 20.0 s, step 812`, in local time."""
    if finding.since is None:
        return ""
    during = step_text(timeline.step_at(finding.since))
    since = clock_time(finding.since)
    if finding.until is None:
        return f"since {since}{during}"
    seconds = finding.until - finding.since
    return f"at {since} for {duration(seconds)}{during}" if seconds >= 1 else f"at {since}{during}"


def step_text(at: StepAt | None) -> str:
    """Return `, step 812`, or an empty string if no step was made."""
    if at is None:
        return ""
    return f", after step {at.step:,}" if at.is_over else f", step {at.step:,}{' again' if at.is_repeated else ''}"


def clock_time(at: float) -> str:
    """Return the time of day of a moment."""
    return moment(at, "%H:%M:%S")


def _moment(at: float, end: float) -> str:
    """Return a time of day, with its date if that is not the date of the end."""
    date, last = (moment(time, "%Y-%m-%d") for time in (at, end))
    return clock_time(at) if date == last else f"{date} {clock_time(at)}"


def _conclusion(wrong: Sequence[Finding], rest: Sequence[Finding], *, everything: bool, after: str) -> Text:
    judged = sum(finding.verdict is Verdict.OK for finding in rest)
    skipped = len({finding.check for finding in rest if finding.verdict is Verdict.SKIPPED})
    others = f"{plural(judged, 'rule')} found nothing, {skipped} {'was' if skipped == 1 else 'were'} skipped"
    hint = "" if everything else " (--all shows why)"
    if not wrong:
        return Text.assemble(("Nothing unusual", "bold green"), f"{after}: {others}{hint}")
    return Text.assemble((plural(len(wrong), "verdict"), "bold"), f"{after}; {others}{hint}")
