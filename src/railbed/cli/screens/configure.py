"""configure for people: what would change on each device, line by line, then the outcome."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from railbed.cli.console import print_hanging
from railbed.cli.hints import command_line
from railbed.cli.screens.plan import PlanPrinter
from railbed.cli.screens.text import TextScreen
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Change, Record
from railbed.model.text import plural, printable

OUTCOMES = {"applied": "green", "undone": "green", "restored": "yellow", "refused": "yellow", "unknown": "bold red"}


class ConfigureScreen(TextScreen):
    """Shows the changes by device as soon as all are known, before the user is asked; findings at the end."""

    def __init__(self, *, cluster: Cluster, has_undo: bool = True) -> None:
        super().__init__(verbose=False, cluster=cluster)
        self._plan = PlanPrinter(self._out, cluster)
        self._applied = False
        self._has_undo = has_undo

    def show(self, record: Record) -> None:
        """Collect changes until all are known; show what happens to devices at once."""
        match record:
            case Change():
                self._plan.add(record)
            case events.ChangesPlanned():
                self.line.clear()
                self._plan.show(record)
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
        if self._applied and self._has_undo:
            command = command_line(f"railbed configure --undo {run.name}")
            self._out.print(Text.assemble("undo: ", (command, "bold")), soft_wrap=True)

    def _print(self, text: Text) -> None:
        self.line.clear()
        print_hanging(self._out, text, indent=2)
