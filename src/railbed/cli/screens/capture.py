"""The screen of capture: how each port is recorded, progress, a table of ports, then the findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from railbed.cli.console import SafeConsole
from railbed.cli.screens.base import Screen
from railbed.cli.screens.text import TextScreen
from railbed.model import events
from railbed.model.amount import size
from railbed.model.cluster import Cluster
from railbed.model.printable import printable
from railbed.model.record import Event, Record
from railbed.present.names import name_range


class CaptureScreen(Screen):
    """Progress on standard error, the table and the findings on standard output."""

    def __init__(self, *, verbose: bool, cluster: Cluster) -> None:
        super().__init__()
        self._findings = TextScreen(verbose=verbose, cluster=cluster)
        self._out = SafeConsole(highlight=False)
        self._methods: list[events.CaptureMethod] = []
        self._ports: list[events.PortCaptured] = []
        self._streaming = False

    def show(self, record: Record) -> None:
        """Update the progress line; collect what the end shows."""
        if not self._streaming or not isinstance(record, events.Progress):
            self.line.take(record)
        match record:
            case events.CaptureMethod():
                self._methods.append(record)
            case events.CaptureStarted():
                for line in method_lines(self._methods):
                    self.line.print_line(line, "dim")
                self.line.print_line(f"{record.message}; Ctrl-C stops", "dim")
            case events.BenchPlanned():
                self._streaming = True
            case events.PortCaptured():
                self._streaming = False
                self._ports.append(record)
            case events.Notice():
                self.line.print_line(f"{record.subject} {record.message}".strip(), "yellow")
            case Event():
                pass
            case _:
                self._findings.show(record)

    def finish(self, run: Path) -> None:
        """Show the ports, then the findings."""
        self.line.stop()
        if self._ports:
            self._out.print(_ports_table(self._ports))
        self._findings.finish(run)
        if self._ports:
            self._out.print(Text(f"the packets are in {run / 'raw'}"))


def method_lines(methods: Sequence[events.CaptureMethod]) -> list[str]:
    """Return a line for each way of recording, with the ports that it is used on."""
    ways: dict[str, list[str]] = {}
    for method in methods:
        reason = method.message.partition(": ")[2].replace(method.source, "it")
        ways.setdefault(reason, []).append(method.subject)
    return [f"{name_range(ports, shortened=True)}: {reason}" for reason, ports in ways.items()]


def _ports_table(ports: Sequence[events.PortCaptured]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("port", "packets", "dropped", "recorded"):
        table.add_column(name, justify="left" if name == "port" else "right", no_wrap=True)
    for port in sorted(ports, key=lambda port: port.subject):
        table.add_row(
            printable(port.subject),
            _count(port.captured),
            Text(_count(port.dropped), style=_style(port)),
            size(port.bytes),
        )
    return table


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _style(port: events.PortCaptured) -> str:
    return "" if port.dropped == 0 else "red"
