"""configure for people: what would change on each device, line by line, then the outcome."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from railbed.cli.screens.text import TextScreen
from railbed.model import events
from railbed.model.amount import plural
from railbed.model.cluster import Cluster
from railbed.model.printable import printable
from railbed.model.record import Change, Record

OUTCOMES = {"applied": "green", "undone": "green", "restored": "yellow", "refused": "yellow", "unknown": "bold red"}


class ConfigureScreen(TextScreen):
    """Shows the changes by device as soon as all are known, before the user is asked; findings at the end."""

    def __init__(self, *, cluster: Cluster) -> None:
        super().__init__(verbose=False, cluster=cluster)
        self._planned: list[Change] = []
        self._applied = False

    def show(self, record: Record) -> None:
        """Collect changes until all are known; show what happens to devices at once."""
        match record:
            case Change():
                self._planned.append(record)
            case events.ChangesPlanned():
                self._show_plan(record)
            case events.DeviceChanged():
                self._applied = self._applied or record.outcome in ("applied", "unknown")
                self.line.take(record)
                self._print(Text(printable(record.message), style=OUTCOMES[record.outcome]))
            case events.ChangeUnfinished():
                self._print(Text(printable(record.message), style="bold yellow"))
            case events.FilesRendered():
                self._print(Text(f"{plural(len(record.files), 'file')} {printable(record.message)}"))
            case _:
                super().show(record)

    def finish(self, run: Path) -> None:
        """Show the findings after the changes, and how to undo the changes."""
        super().finish(run)
        if self._applied:
            self._out.print(Text.assemble("undo: ", (f"railbed configure --undo {run.name}", "bold")))

    def _print(self, text: Text) -> None:
        self.line.clear()
        self._out.print(text)

    def _show_plan(self, planned: events.ChangesPlanned) -> None:
        self.line.clear()
        for device in planned.devices:
            changes = [change for change in self._planned if _device(change) == device and not change.left_out]
            stops = "; traffic may stop for a moment" if device in planned.interrupts else ""
            self._out.print(Text.assemble((printable(device), "bold"), f"  {plural(len(changes), 'change')}{stops}"))
            for change in changes:
                self._show_change(change)
            self._out.print()
        left_out = [change for change in self._planned if change.left_out]
        if left_out:
            self._out.print(Text("left out", style="bold"))
            for change in left_out:
                self._show_change(change)
            self._out.print()
        if not planned.devices:
            self._out.print("nothing to change" if not left_out else "nothing else to change")

    def _show_change(self, change: Change) -> None:
        port = change.subject.partition("/")[2] if not change.left_out else change.subject
        values = " → ".join(printable(value) for value in (change.before, change.after) if value)
        name = f"{change.check}  " if change.check else ""
        self._out.print(Text.assemble(("  ~ ", "yellow"), (name, "bold"), f"{port}: " if port else "", values))
        for line in change.apply:
            self._out.print(Text(f"      {printable(line)}", style=_style(line)), soft_wrap=True)
        for line in change.undo:
            self._out.print(Text(f"      undo: {printable(line)}", style="dim"), soft_wrap=True)
        if change.left_out:
            self._out.print(Text(f"    → {printable(change.left_out)}", style="cyan"))


def _device(change: Change) -> str:
    return change.subject.partition("/")[0]


def _style(line: str) -> str:
    """Return the colour of a line: those of a difference as in a diff."""
    return "green" if line.startswith("+") else "red" if line.startswith("-") else "cyan"
