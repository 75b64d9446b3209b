"""Records for people: findings grouped by node with the worst first, changes, and progress while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from rich.table import Table
from rich.text import Text

from railbed.cli.console import SafeConsole
from railbed.cli.screens.base import Screen
from railbed.model.cluster import Cluster
from railbed.model.events import Notice
from railbed.model.printable import printable
from railbed.model.record import Change, Finding, Record, Verdict
from railbed.present.findings import IN_BRIEF, group_of, grouped, verdict_counts
from railbed.present.nodes import NodeGroup, NodeNames, blocks, name_range

STYLES = {
    Verdict.FAIL: "bold red",
    Verdict.UNKNOWN: "magenta",
    Verdict.WARN: "yellow",
    Verdict.SKIPPED: "dim",
    Verdict.OK: "green",
}
WIDE = 110
FEW = 4
VERDICT_WIDTH = max(len(verdict) for verdict in Verdict)


class TextScreen(Screen):
    """A table per node on standard output; progress on standard error."""

    def __init__(
        self, *, verbose: bool, listed_above: frozenset[str] = frozenset(), cluster: Cluster | None = None
    ) -> None:
        super().__init__()
        self._verbose = verbose
        self._node_names = NodeNames(cluster)
        self._listed_above = frozenset() if verbose else listed_above
        """Checks whose findings are already listed in full above the groups: they are only counted."""
        self._out = SafeConsole(highlight=False)
        self._started = time.monotonic()
        self._findings: list[Finding] = []
        self._changes: list[Change] = []

    def show(self, record: Record) -> None:
        """Update the progress line; collect the findings for the end."""
        self.line.take(record)
        match record:
            case Finding():
                self._findings.append(record)
            case Change():
                self._changes.append(record)
            case Notice():
                self.line.print_line(record.message, "yellow")
            case _:
                pass

    def finish(self, run: Path) -> None:
        """Show the findings by node, the changes, and a summary."""
        self.line.stop()
        for change in self._changes:
            self._out.print(change_line(change))
        groups = grouped(finding for finding in self._findings if finding.check not in self._listed_above)
        named = ((group_of(group[0]), group) for group in groups)
        self._show_blocks(blocks(named, self._node_names, verbose=self._verbose))
        if self._findings:
            self._out.print(self._summary(run))

    def conclude(self, reason: str) -> None:
        """Print why the exit code is not 0."""
        if reason:
            self._out.print(Text(reason, style="bold"))

    def _show_blocks(self, shown: Iterable[NodeGroup]) -> None:
        """Show the groups; of those that need no attention, only the first lists its checks, to save space."""
        after_details = False
        for number, block in enumerate(shown):
            detailed = number == 0 or self._verbose or _needs_attention(block)
            if number > 0 and (detailed or after_details):
                self._out.print()
            self._out.print(_heading(block))
            if detailed:
                self._out.print(self._details(block.findings))
            after_details = detailed

    def _details(self, findings: list[Finding]) -> Table:
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 1), pad_edge=True)
        table.add_column(no_wrap=True, min_width=VERDICT_WIDTH)
        table.add_column(overflow="fold", ratio=1)
        listed = [finding for finding in findings if self._verbose or finding.verdict not in IN_BRIEF]
        # A wide terminal has space for a column of names; on a narrow one it would squeeze the observations.
        width = max((len(finding.check) for finding in listed), default=0) if self._out.width >= WIDE else 0
        for finding, times in _without_repeats(listed):
            _add_rows(table, finding, width, times)
        if not self._verbose:
            _add_in_brief(table, findings)
        return table

    def _summary(self, run: Path) -> Text:
        seconds = time.monotonic() - self._started
        return Text.assemble("\n", counted(self._findings), f"  in {seconds:.1f} s, saved in ", (str(run), "bold"))


def counted(findings: Iterable[Finding]) -> Text:
    """Return `2 failed · 1 unknown · 31 ok`, each in its colour."""
    parts = [Text(f"{count} {noun}", style=STYLES[verdict]) for verdict, count, noun in verdict_counts(findings)]
    return Text(" · ").join(parts)


def change_line(change: Change) -> Text:
    """Return one difference as a line."""
    sign, style = {"add": ("+", "green"), "remove": ("-", "red"), "set": ("~", "yellow")}[change.action]
    values = " → ".join(printable(value) for value in (change.before, change.after) if value)
    return Text.assemble((f"{sign} {printable(change.subject)}", style), "  ", values)


def _needs_attention(block: NodeGroup) -> bool:
    return any(finding.verdict not in IN_BRIEF for finding in block.findings)


def _heading(block: NodeGroup) -> Text:
    each = f"  each of {len(block.names)}: " if len(block.names) > 1 else "  "
    return Text.assemble((printable(name_range(block.names)), "bold"), each, counted(block.findings))


def _verdict(verdict: Verdict) -> Text:
    return Text(verdict.value, style=STYLES[verdict])


def _names(checks: Iterable[str]) -> str:
    return ", ".join(sorted(set(checks)))


def _few(checks: Iterable[str]) -> str:
    """Return the names; for a long list, the first few and the number of others."""
    names = sorted(set(checks))
    more = len(names) - FEW
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:FEW])} and {more} more"


def _add_in_brief(table: Table, findings: Iterable[Finding]) -> None:
    """Add skipped checks with their reasons, and passing checks by name."""
    reasons: dict[str, list[str]] = {}
    fine: list[str] = []
    for finding in findings:
        if finding.verdict is Verdict.SKIPPED:
            reasons.setdefault(finding.observed, []).append(finding.check)
        elif finding.verdict is Verdict.OK:
            fine.append(finding.check)
    if reasons:
        skipped = "; ".join(f"{_few(checks)} ({printable(reason)})" for reason, checks in reasons.items())
        table.add_row(_verdict(Verdict.SKIPPED), Text(skipped, style="dim"))
    if fine:
        table.add_row(_verdict(Verdict.OK), Text(_names(fine), style="dim"))


def _without_repeats(findings: Iterable[Finding]) -> list[tuple[Finding, int]]:
    """Return each distinct finding and how often it occurs: a repeated measurement may fail again."""
    times: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        words = (finding.check, finding.subject, finding.verdict, finding.observed, finding.expected, finding.remedy)
        times.setdefault(words, []).append(finding)
    return [(repeats[0], len(repeats)) for repeats in times.values()]


def _add_rows(table: Table, finding: Finding, width: int, times: int) -> None:
    what = printable(finding.observed) + (f" ({times} times)" if times > 1 else "")
    if finding.verdict in (Verdict.FAIL, Verdict.WARN) and finding.expected:
        what = f"{what}; expected {printable(finding.expected)}"
    port = finding.subject.partition("/")[2]
    line = Text.assemble((finding.check.ljust(width), "bold"), "  ", (f"{port}: ", "bold") if port else "", what)
    table.add_row(_verdict(finding.verdict), line)
    if finding.remedy and finding.verdict is not Verdict.OK:
        table.add_row("", Text(f"→ {printable(finding.remedy)}", style="cyan"))
