"""The terminal view of a run: nodes, busy queues and the last events, 80 columns wide."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from railbed.cli.console import SafeConsole
from railbed.cli.screens.base import Screen
from railbed.cli.screens.watch_rows import NodeRow, QueueRow, node_rows, queue_rows
from railbed.model.record import Record
from railbed.model.text import printable
from railbed.present.wording import moment
from railbed.store.timeline import Mark, Timeline

BARS = "▁▂▃▄▅▆▇█"
NOTHING = "–"
MOST_MARKS = 6
PLAIN_SECONDS = 10.0
"""Between two tables where there is no terminal to redraw."""
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
BAD_KINDS = {"fault": "red", "lost": "red", "error": "red", "restart": "yellow", "gap": "yellow", "pause": "magenta"}


class WatchScreen(Screen):
    """Redraws the view of a run on a terminal; elsewhere, a table now and then, and each event as a line."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        super().__init__(progress=False)
        self._timeline = timeline
        self._own = timeline is None
        """Whether this process writes the run."""
        self._console = SafeConsole(highlight=False)
        self._live: Live | None = None
        self._printed = -math.inf
        self._marks = 0

    def begin(self, run: Path) -> None:
        """Read the run; on a terminal, take a part of it."""
        self._timeline = self._timeline or Timeline(run)
        self._marks = len(self._timeline.marks())
        if self._console.is_terminal and self._timeline.live:
            self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
            self._live.start()

    def show(self, record: Record) -> None:
        """Take a record of a run that this process writes; its view is read from the run."""

    def refresh(self) -> None:
        """Read what is new, and show it."""
        timeline = self._opened
        timeline.refresh()
        if self._live:
            self._live.update(view(timeline, self._console.width), refresh=True)
            return
        marks = timeline.marks()
        for mark in marks[self._marks :]:
            self._console.print(mark_line(mark))
        self._marks = len(marks)
        if time.monotonic() - self._printed >= PLAIN_SECONDS:
            self._printed = time.monotonic()
            self._console.print(view(timeline, self._console.width, events=False))
        sys.stdout.flush()

    def finish(self, run: Path) -> None:
        """Leave the final view on the screen."""
        self._end()
        self._opened.refresh()
        self._console.print(view(self._opened, self._console.width))
        if self._own:
            self._console.print(Text.assemble("saved in ", (str(run), "bold")))

    def cut_short(self, run: Path) -> None:
        """Leave the last view of a run that was interrupted."""
        self.finish(run)

    @property
    def _opened(self) -> Timeline:
        assert self._timeline is not None, "begin() comes first"
        return self._timeline

    def _end(self) -> None:
        live, self._live = self._live, None
        if live:
            live.stop()


def view(timeline: Timeline, width: int, *, events: bool = True) -> RenderableType:
    """Return what is shown of a run now, on a screen of some width."""
    nodes, queues = node_rows(timeline), queue_rows(timeline)
    parts: list[RenderableType] = [heading(timeline)]
    if nodes:
        parts += [node_table(nodes, width)]
    if queues:
        parts += [Text(""), queue_table(queues)]
    marks = [mark for mark in timeline.marks() if mark.kind != "checkpoint"][-MOST_MARKS:]
    if marks and events:
        parts += [Text(""), *(mark_line(mark) for mark in marks)]
    if not nodes:
        parts.append(Text("no samples yet" if timeline.live else "this run has no samples", style="yellow"))
    return Group(*parts)


def heading(timeline: Timeline) -> Text:
    """Return the run, its state, and how far it has got."""
    summary = timeline.summary
    state = "live" if timeline.live else summary.status
    parts = [f"{summary.id} · {summary.cluster} · "]
    text = Text.assemble((parts[0], "bold"), (state, "green" if timeline.live else ""))
    text.append(f" · {duration(timeline.end - timeline.start)}")
    step = last_step(timeline)
    if step is not None:
        text.append(f" · step {step:,}")
    losses = [series for series in timeline.series() if series.meter == "loss"]
    if losses and (values := timeline.track(losses[0]).values).size:
        text.append(f" · loss {values[-1]:.3f}")
    return text


def last_step(timeline: Timeline) -> int | None:
    """Return the last step that a training has finished."""
    times = [
        float(track.times[-1])
        for series in timeline.series()
        if series.meter == "step_seconds" and (track := timeline.track(series)).times.size
    ]
    at = timeline.step_at(max(times)) if times else None
    return at.step if at else None


def node_table(rows: Sequence[NodeRow], width: int) -> Table:
    """Return one line for each node; columns that nothing measures, or that do not fit, are left out."""
    cells = {name: [text(row) for row in rows] for name, text in COLUMNS}
    room = width - max(len(printable(row.node)) for row in rows)
    shown = set()
    for name in BY_IMPORTANCE:
        if any(text not in (NOTHING, "") for text in cells[name]):
            room -= 1 + max(len(text) for text in (name, *cells[name]))
            if room < 0:
                break
            shown.add(name)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("node", no_wrap=True, overflow="ellipsis", min_width=5)
    names = [name for name, _ in COLUMNS if name in shown]
    for name in names:
        table.add_column(name, justify="left" if name == "trend" else "right", no_wrap=True)
    for place, row in enumerate(rows):
        table.add_row(printable(row.node), *(_style(name, cells[name][place]) for name in names))
    return table


def queue_table(rows: Sequence[QueueRow]) -> Table:
    """Return the busiest queues."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in ("switch", "port", "queue", "depth", "ecn/s", "drop/s"):
        table.add_column(name, no_wrap=True, justify="left" if name in ("switch", "port") else "right")
    for row in rows:
        values = (f"{amount(row.depth)}B" if row.depth is not None else NOTHING, amount(row.marked))
        table.add_row(
            printable(row.switch), printable(row.port), row.queue, *values, _style("err/s", amount(row.dropped))
        )
    return table


def mark_line(mark: Mark) -> Text:
    """Return an event as one line."""
    where = f"{mark.subject}: " if mark.subject and not mark.text.startswith(mark.subject) else ""
    line = Text.assemble(
        (f"{moment(mark.time, '%H:%M:%S')} ", "dim"),
        (f"{mark.kind} ", BAD_KINDS.get(mark.kind, "dim")),
        printable(f"{where}{mark.text}"),
    )
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def seconds(value: float | None) -> str:
    """Return `38 ms`, `1.24 s`."""
    if value is None or math.isnan(value):
        return NOTHING
    if value >= 0.9995:
        return f"{value:.2f} s" if value < 99.5 else f"{value:.0f} s"
    return f"{value * 1e3:.0f} ms" if value >= 0.00995 or value == 0 else f"{value * 1e3:.1f} ms"


def amount(value: float | None, factor: float = 1.0) -> str:
    """Return `0`, `950`, `1.25G`."""
    if value is None or math.isnan(value):
        return NOTHING
    scaled = value * factor
    for size, prefix in PREFIXES:
        if scaled >= size * 0.9995:
            number = scaled / size
            return (
                f"{number:.2f}{prefix}"
                if number < 9.995
                else f"{number:.1f}{prefix}"
                if number < 99.95
                else f"{number:.0f}{prefix}"
            )
    return f"{scaled:.0f}" if scaled >= 9.5 or scaled == 0 else f"{scaled:.2g}"


def share(value: float | None) -> str:
    """Return `3 %`."""
    if value is None or math.isnan(value):
        return NOTHING
    percent = value * 100
    return f"{percent:.0f} %" if percent >= 9.5 or percent < 0.05 else f"{percent:.1f} %"


def duration(length: float) -> str:
    """Return `12 s`, `3 min 20 s`, `2 h 5 min`."""
    total = round(length)
    if total < 60:
        return f"{total} s"
    return f"{total // 60} min {total % 60} s" if total < 3600 else f"{total // 3600} h {total % 3600 // 60} min"


def sparkline(values: Sequence[float]) -> str:
    """Return a line of bars from zero to the largest value; a gap is a space."""
    numbers = [value for value in values if not math.isnan(value)]
    largest = max(numbers, default=0.0)
    if not numbers:
        return ""
    top = len(BARS) - 1
    return "".join(
        " " if math.isnan(value) else BARS[min(top, int(value / largest * len(BARS))) if largest > 0 else 0]
        for value in values
    )


def _style(column: str, text: str) -> Text:
    alarming = column in ("pause", "err/s", "ecn/s") and text not in (NOTHING, "0", "0 %")
    return Text(text, style="yellow" if alarming else "dim" if text == NOTHING else "")


COLUMNS: Sequence[tuple[str, Callable[[NodeRow], str]]] = (
    ("step", lambda row: seconds(row.step_seconds)),
    ("wait", lambda row: seconds(row.wait_seconds)),
    ("rx b/s", lambda row: amount(row.received, 8)),
    ("tx b/s", lambda row: amount(row.sent, 8)),
    ("pause", lambda row: share(row.pause)),
    ("ecn/s", lambda row: amount(row.notified)),
    ("err/s", lambda row: amount(row.faulty)),
    ("cpu", lambda row: NOTHING if row.cpu is None else f"{row.cpu:.1f}"),
    ("gpu", lambda row: share(row.gpu)),
    ("trend", lambda row: sparkline(row.trend)),
)
"""Name and text of each column, in their order."""
BY_IMPORTANCE = ("step", "pause", "err/s", "tx b/s", "rx b/s", "ecn/s", "wait", "cpu", "gpu", "trend")
