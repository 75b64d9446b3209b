"""configure for people: what would change on each device, line by line, then the outcome."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from railbed.cli.console import print_hanging
from railbed.cli.hints import command_line
from railbed.cli.screens.text import TextScreen
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Change, Record
from railbed.model.text import plural, printable
from railbed.parsing.nexus.switch_lock import checkpoint_name
from railbed.present.changes import ChangeGroup, DeviceGroup, device_groups
from railbed.present.wording import each_of, name_range

OUTCOMES = {"applied": "green", "undone": "green", "restored": "yellow", "refused": "yellow", "unknown": "bold red"}


class ConfigureScreen(TextScreen):
    """Shows the changes by device as soon as all are known, before the user is asked; findings at the end."""

    def __init__(self, *, cluster: Cluster, has_undo: bool = True) -> None:
        super().__init__(verbose=False, cluster=cluster)
        self._switches = frozenset(cluster.switches)
        self._planned: list[Change] = []
        self._applied = False
        self._has_undo = has_undo

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
        if self._applied and self._has_undo:
            command = command_line(f"railbed configure --undo {run.name}")
            self._out.print(Text.assemble("undo: ", (command, "bold")), soft_wrap=True)

    def _print(self, text: Text) -> None:
        self.line.clear()
        print_hanging(self._out, text, indent=2)

    def _show_plan(self, planned: events.ChangesPlanned) -> None:
        self.line.clear()
        made = [change for change in self._planned if not change.left_out]
        left_out = [change for change in self._planned if change.left_out]
        for group in device_groups(made, self._mask):
            pause = "; traffic may stop for a moment" if group.names[0] in planned.interrupts else ""
            self._show_device(group, f"{plural(group.count, 'change')}{pause}")
        for group in device_groups(left_out, self._mask):
            self._show_device(group, f"{plural(group.count, 'change')} left out")
        if not planned.devices:
            self._out.print("nothing to change" if not left_out else "nothing else to change")

    def _show_device(self, group: DeviceGroup, summary: str) -> None:
        heading = Text.assemble((printable(name_range(group.names)), "bold"), f"  {each_of(group.names)}{summary}")
        print_hanging(self._out, heading, indent=2)
        for change in group.changes:
            self._show_change(change)
        if group.names[0] in self._switches and any(change.change.check for change in group.changes):
            text = (
                f"takes back these lines alone; the checkpoint {checkpoint_name('RUN')} is the whole state before them"
            )
            print_hanging(self._out, Text(text, style="dim"), first=Text("  undo: ", style="dim"), indent=8)
        self._out.print()

    def _show_change(self, group: ChangeGroup) -> None:
        change = group.change
        values = " → ".join(printable(value) for value in (change.before, change.after) if value)
        name = (f"{change.check}  ", "bold") if change.check else ""
        ports = f"{printable(group.ports)}: " if group.ports else ""
        text = Text.assemble(name, ports, values)
        print_hanging(self._out, text, first=Text("  ~ ", style="yellow"), indent=4)
        for line in change.apply:
            self._out.print(Text(f"      {printable(line)}", style=_style(line)), soft_wrap=True)
        for line in change.undo:
            self._out.print(Text(f"      undo: {printable(line)}", style="dim"), soft_wrap=True)
        if group.likewise:
            self._show_note(printable(group.likewise), indent=6)
        if change.left_out:
            self._show_note(printable(change.left_out), indent=4)


def _style(line: str) -> str:
    """Return the colour of a line: those of a difference as in a diff."""
    return "green" if line.startswith("+") else "red" if line.startswith("-") else "cyan"
