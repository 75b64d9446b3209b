"""The first contact for people: host keys as a table to confirm, then what became of each machine."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from railbed.cli.console import print_hanging
from railbed.cli.screens.text import TextScreen
from railbed.model import events
from railbed.model.record import Record
from railbed.model.text import printable

STYLES = {"applied": "green", "undone": "green"}
COMPARE = "compare them at each machine's own console, which somebody between cannot change: "
COMMAND = "for key in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $key; done"


class ContactScreen(TextScreen):
    """Collects host keys until the person is asked about them."""

    def __init__(self) -> None:
        super().__init__(verbose=False)
        self._keys: list[events.HostKeyShown] = []

    def show(self, record: Record) -> None:
        """Show what happened to a machine at once."""
        match record:
            case events.HostKeyShown():
                self._keys.append(record)
            case events.DeviceChanged():
                self.line.take(record)
                self.line.clear()
                print_hanging(self._out, Text(printable(record.message), style=STYLES[record.outcome]), indent=2)
            case _:
                super().show(record)

    def show_keys(self) -> None:
        """Show the table of host keys, just before the question about them; there may be other questions."""
        self.line.clear()
        if not self._keys:
            return
        table = Table("machine", "kind", "fingerprint of its host key", box=None, header_style="bold")
        for key in self._keys:
            table.add_row(printable(key.subject), printable(key.algorithm), printable(key.message))
        self._keys.clear()
        self._out.print(table)
        self._out.print(Text.assemble(COMPARE, (COMMAND, "bold")), soft_wrap=True)
