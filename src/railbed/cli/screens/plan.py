"""A plan of changes for people: what would change on each device, line by line, and what that interrupts."""

from __future__ import annotations

from functools import reduce
from operator import or_

from rich.console import Console
from rich.text import Text

from railbed.cli.console import print_hanging
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.fix import NOTHING
from railbed.model.record import Change
from railbed.model.text import plural, printable
from railbed.parsing.nexus.switch_lock import checkpoint_name
from railbed.present.changes import ChangeGroup, DeviceGroup, device_groups
from railbed.present.groups import NameMask
from railbed.present.wording import each_of, name_range


class PlanPrinter:
    """Collects changes until all are known, and prints them by device, before the user is asked."""

    def __init__(self, out: Console, cluster: Cluster | None, *, temporary: bool = False) -> None:
        self._out = out
        self._mask = NameMask(cluster)
        self._switches = frozenset(cluster.switches if cluster else ())
        self._temporary = temporary
        self._planned: list[Change] = []

    def add(self, change: Change) -> None:
        """Note a change."""
        self._planned.append(change)

    def show(self, planned: events.ChangesPlanned) -> None:
        """Print the changes so far, and forget them."""
        made = [change for change in self._planned if not change.left_out]
        left_out = [change for change in self._planned if change.left_out]
        self._planned = []
        for group in device_groups(made, self._mask):
            summary = plural(group.count, "change")
            self._show_device(group, f"{summary}{self._pause(group.names[0], made, planned)}")
        for group in device_groups(left_out, self._mask):
            self._show_device(group, f"{plural(group.count, 'change')} left out")
        if not planned.devices:
            self._out.print("nothing to change" if not left_out else "nothing else to change")

    def _pause(self, device: str, made: list[Change], planned: events.ChangesPlanned) -> str:
        """Return what the changes of a device interrupt."""
        own = (change.interruption for change in made if change.subject.partition("/")[0] == device)
        if interruption := reduce(or_, own, NOTHING):
            return f"; {printable(interruption.describe(device))}"
        return "; traffic may stop for a moment" if device in planned.interrupts else ""

    def _show_device(self, group: DeviceGroup, summary: str) -> None:
        heading = Text.assemble((printable(name_range(group.names)), "bold"), f"  {each_of(group.names)}{summary}")
        print_hanging(self._out, heading, indent=2)
        for change in group.changes:
            self._show_change(change)
        if group.names[0] in self._switches and any(change.change.check for change in group.changes):
            text = (
                "rolls back to a checkpoint, which interrupts the same once more"
                if self._temporary
                else f"takes back these lines alone; the checkpoint {checkpoint_name('RUN')} is the whole state "
                "before them"
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
        if change.interruption and not change.left_out and not group.likewise:
            self._show_note(printable(change.interruption.describe(change.subject.partition("/")[0])), indent=6)
        if group.likewise:
            self._show_note(printable(group.likewise), indent=6)
        if change.left_out:
            self._show_note(printable(change.left_out), indent=4)

    def _show_note(self, text: str, *, indent: int) -> None:
        first = Text(f"{' ' * indent}→ ", style="cyan")
        print_hanging(self._out, Text(text, style="cyan"), first=first, indent=indent + 2)


def _style(line: str) -> str:
    """Return the colour of a line: those of a difference as in a diff."""
    return "green" if line.startswith("+") else "red" if line.startswith("-") else "cyan"
