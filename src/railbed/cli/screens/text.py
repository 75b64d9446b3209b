"""Records for people: findings grouped by node with the worst first, changes, and progress while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from rich.text import Text

from railbed.cli.console import SafeConsole, break_between_commands, print_hanging, room
from railbed.cli.hints import command_line
from railbed.cli.screens.base import Screen
from railbed.model.cluster import Cluster
from railbed.model.events import DeviceRead, Notice
from railbed.model.record import WRONG, Change, Finding, Record, Verdict
from railbed.model.text import plural, printable
from railbed.present.groups import (
    IN_BRIEF,
    NameMask,
    NodeGroup,
    PortGroup,
    blocks,
    group_by,
    group_findings,
    group_of,
    port_groups,
    verdict_counts,
)
from railbed.present.wording import each_of, name_range

STYLES = {
    Verdict.FAIL: "bold red",
    Verdict.UNKNOWN: "magenta",
    Verdict.WARN: "yellow",
    Verdict.SKIPPED: "dim",
    Verdict.OK: "green",
}
WIDE = 110
FEW = 4
INDENT = max(len(verdict) for verdict in Verdict) + 3
"""Where findings begin, to the right of their verdicts."""


class TextScreen(Screen):
    """A table per node on standard output; progress on standard error."""

    def __init__(
        self,
        *,
        verbose: bool,
        listed_above: frozenset[str] = frozenset(),
        cluster: Cluster | None = None,
        configurable: bool = False,
        evidence: bool = False,
    ) -> None:
        super().__init__()
        self._verbose = verbose
        self._mask = NameMask(cluster)
        self._listed_above = frozenset() if verbose else listed_above
        """Checks whose findings are already listed in full above the groups: they are only counted."""
        self._configurable = configurable
        """Whether `configure` can fix the findings: there is a cluster file, and it is not a recording."""
        self._evidence = evidence
        """Whether evidence is short enough to be shown below what it proves."""
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
            case DeviceRead() if self._verbose:
                for probe, lines in (record.not_understood or {}).items():
                    count = plural(len(lines), "line")
                    text = f"{record.subject}: {count} of {probe} not understood, such as {lines[0]!r}"
                    self.line.print_line(printable(text), "dim")
            case _:
                pass

    def finish(self, run: Path) -> None:
        """Show the findings by node, the changes, and a summary."""
        self.line.stop()
        for change in self._changes:
            print_hanging(self._out, change_line(change), indent=2)
        groups = group_findings(finding for finding in self._findings if finding.check not in self._listed_above)
        named = ((group_of(group[0]), group) for group in groups)
        self._show_blocks(blocks(named, self._mask, verbose=self._verbose))
        if self._findings:
            self._out.print()
            print_hanging(self._out, self._summary(run), indent=2)
        if self._configurable:
            self._point_to_configure()

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
            self._show_heading(block)
            if detailed:
                self._show_details(block)
            after_details = detailed

    def _show_heading(self, block: NodeGroup) -> None:
        names = name_range(block.names, shortened=not _needs_attention(block))
        text = Text.assemble((printable(names), "bold"), f"  {each_of(block.names)}")
        counts = format_verdicts(block.findings)
        # Counts that do not fit move to the next line together.
        separator = "\n" if text.cell_len + counts.cell_len > self._out.width else ""
        print_hanging(self._out, Text.assemble(text, separator, counts), indent=2)

    def _show_details(self, block: NodeGroup) -> None:
        listed = [same for same in block.alike if self._verbose or same[0].verdict not in IN_BRIEF]
        # A wide terminal has space for a column of names; on a narrow one it would squeeze the observations.
        width = max((len(same[0].check) for same in listed), default=0) if self._out.width >= WIDE else 0
        for group in port_groups(listed, self._mask, merged=not self._verbose):
            self._show_finding(group, width)
        if not self._verbose:
            self._show_in_brief(block.findings)

    def _show_finding(self, group: PortGroup, width: int) -> None:
        finding = group.finding
        text = printable(group.text)
        if finding.verdict in WRONG and finding.expected:
            text = f"{text}; expected {printable(finding.expected)}"
        ports = (f"{printable(group.ports)}: ", "bold") if group.ports else ""
        line = Text.assemble((finding.check.ljust(width), "bold"), "  ", ports, text)
        print_hanging(self._out, line, first=_verdict(finding.verdict), indent=INDENT)
        if self._evidence and finding.verdict in WRONG:
            for proof in filter(None, finding.evidence.splitlines()):
                line = Text(printable(proof), style="dim")
                print_hanging(self._out, line, first=Text(" " * INDENT), indent=INDENT)
        if finding.remedy and finding.verdict is not Verdict.OK:
            remedy = break_between_commands(printable(finding.remedy), room(self._out, INDENT + 2))
            self._show_note(remedy, indent=INDENT)
            if group.likewise:
                self._show_note(printable(group.likewise), indent=INDENT)

    def _show_note(self, text: str, *, indent: int) -> None:
        """Show a remedy or a remark below what it is about."""
        first = Text(f"{' ' * indent}→ ", style="cyan")
        print_hanging(self._out, Text(text, style="cyan"), first=first, indent=indent + 2)

    def _show_in_brief(self, findings: Iterable[Finding]) -> None:
        """Show skipped checks with their reasons, and passing checks by name."""
        skipped = group_by((finding for finding in findings if finding.verdict is Verdict.SKIPPED), _observation_of)
        reasons = [f"{_few(same)} ({printable(_observation_of(same[0]))})" for same in skipped]
        fine = sorted({finding.check for finding in findings if finding.verdict is Verdict.OK})
        for verdict, text in ((Verdict.SKIPPED, "; ".join(reasons)), (Verdict.OK, ", ".join(fine))):
            if text:
                print_hanging(self._out, Text(text, style="dim"), first=_verdict(verdict), indent=INDENT)

    def _summary(self, run: Path) -> Text:
        seconds = time.monotonic() - self._started
        return Text.assemble(format_verdicts(self._findings), f"  in {seconds:.1f} s, saved in ", (str(run), "bold"))

    def _point_to_configure(self) -> None:
        """Name the command that shows and makes the fixes, if there are several."""
        fixes = sum(finding.fix is not None and finding.verdict in WRONG for finding in self._findings)
        if fixes > 1:
            command = command_line("railbed configure")
            text = Text.assemble(
                (command, "bold"), f" shows the fixes of {fixes} findings, and applies them with --apply"
            )
            print_hanging(self._out, text, indent=2)


def format_verdicts(findings: Iterable[Finding]) -> Text:
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


def _verdict(verdict: Verdict) -> Text:
    return Text.assemble(" ", (verdict.value, STYLES[verdict]))


def _observation_of(finding: Finding) -> str:
    return finding.observed


def _few(findings: Iterable[Finding]) -> str:
    """Return the names of the checks; for a long list, the first few and the number of others."""
    names = sorted({finding.check for finding in findings})
    more = len(names) - FEW
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:FEW])} and {more} more"
