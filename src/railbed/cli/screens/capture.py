"""The screen of capture: how each port is recorded, progress, a table of ports, then the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from railbed.cli.console import SafeConsole
from railbed.cli.screens.base import Screen
from railbed.cli.screens.text import TextScreen
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Event, Record
from railbed.model.text import duration, plural, printable, size
from railbed.present.wording import name_range

MOST_FLOWS = 12
"""More are shown with --all; records have every one."""
ALWAYS = ("flow", "bytes", "packets", "DSCP", "CE")
NOTHING = ("", "0")
DISPENSABLE = ("rail", "round trip", "packets", "again", "DSCP", "QP", "CNP", "CE")
"""Columns that a narrow terminal goes without, in this order."""
STYLES = {"CE": "yellow", "CNP": "yellow", "lost": "red", "again": "yellow"}
RIGHT = ("bytes", "packets", "CE", "lost", "again", "CNP", "round trip")


class CaptureScreen(Screen):
    """Progress on standard error, the table and the findings on standard output."""

    def __init__(self, *, verbose: bool, cluster: Cluster) -> None:
        super().__init__()
        self._verbose = verbose
        self._findings = TextScreen(verbose=verbose, cluster=cluster, evidence=True)
        self._out = SafeConsole(highlight=False)
        self._methods: list[events.CaptureMethod] = []
        self._ports: list[events.PortCaptured] = []
        self._results: list[events.Flow | events.PacketsExported] = []
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
            case events.Flow() | events.PacketsExported():
                self._results.append(record)
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
            self._out.print()
        self._show_flows([result for result in self._results if isinstance(result, events.Flow)])
        self._findings.finish(run)
        if self._ports:
            self._out.print(Text(f"the packets are in {run / 'raw'}"))
        for result in self._results:
            if isinstance(result, events.PacketsExported):
                self._out.print(Text(printable(result.message)))

    def _show_flows(self, flows: Sequence[events.Flow]) -> None:
        """Show the largest flows that carry data."""
        if not flows:
            return
        carrying = [flow for flow in flows if flow.payload_bytes] or flows
        shown = carrying if self._verbose else carrying[:MOST_FLOWS]
        self._out.print(_flows_table(shown, self._out.width))
        if hidden := len(flows) - len(shown):
            self._out.print(Text(f"and {plural(hidden, 'flow')} with less data, or only answers", style="dim"))
        self._out.print()


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


def _flows_table(flows: Sequence[events.Flow], width: int) -> Table:
    """Return the flows in rows."""
    rows = [_cells(flow) for flow in flows]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    names = fitting_columns(rows, width)
    for name in names:
        table.add_column(name, justify="right" if name in RIGHT else "left", no_wrap=name != "flow")
    for row in rows:
        table.add_row(*(Text(printable(row[name]), style=_cell_style(name, row[name])) for name in names))
    return table


def fitting_columns(rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the columns to show: without those in which all are zero or unknown, and as many as fit."""
    names = [name for name in rows[0] if name in ALWAYS or any(row[name] not in NOTHING for row in rows)]
    widths = {name: max(len(name), *(cell_len(row[name]) for row in rows)) for name in names}
    for name in DISPENSABLE:
        alike = name == "rail" and len({row[name] for row in rows}) == 1
        if name in names and (alike or sum(widths[name] + 2 for name in names) - 2 > width):
            names.remove(name)
    return names


def _cell_style(name: str, text: str) -> str:
    return STYLES.get(name, "") if text not in NOTHING else ""


def _cells(flow: events.Flow) -> dict[str, str]:
    ecn = flow.ecn_arrived or flow.ecn
    ends = flow.source_node, flow.destination_node
    return {
        "flow": f"{ends[0]} → {ends[1]}" if all(ends) and flow.rail else flow.subject,
        "rail": flow.rail or "",
        "QP": str(flow.qp),
        "bytes": size(flow.bytes),
        "packets": f"{flow.packets:,}",
        "DSCP": ", ".join(sorted(flow.dscp, key=lambda dscp: -flow.dscp[dscp])),
        "CE": _share(ecn.get("ce", 0), sum(ecn.values())),
        "CNP": f"{flow.notifications:,}",
        "lost": f"{flow.lost:,}",
        "again": f"{flow.resent:,}",
        "round trip": duration(flow.round_trip.median) if flow.round_trip else "",
    }


def _share(part: int, total: int) -> str:
    return f"{100 * part / total:.1f} %" if part else "0"


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _style(port: events.PortCaptured) -> str:
    return "" if port.dropped == 0 else "red"
