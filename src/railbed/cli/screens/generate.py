"""Generated text: streamed as it arrives, or before and after fine-tuning side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from railbed.cli.screens.base import Screen
from railbed.model import events
from railbed.model.record import Record
from railbed.model.text import clean, plural, printable

HEADING_WIDTH = 70
STOPS = {
    "tokens": "the limit of --tokens is reached",
    "context": "the context of the model is full",
    "interrupted": "interrupted",
}


class GenerateScreen(Screen):
    """The text on standard output, everything else on standard error."""

    def __init__(self, prompts: Sequence[str]) -> None:
        super().__init__()
        self._prompts = prompts
        self._begun = -1
        """The prompt whose answer is being streamed."""
        self._before: dict[int, events.TextGenerated] = {}
        self._loaded = ""

    def show(self, record: Record) -> None:
        """Stream a piece, or print both answers."""
        match record:
            case events.ModelLoaded():
                self._loaded = f"{record.message} ({record.subject})"
                self.line.activity.begin("generating")
            case events.TextPiece(when=None):
                self._stream(record)
            case events.TextPiece():
                pass
            case events.TextGenerated(when=None):
                self._end(record)
            case events.TextGenerated(when="before"):
                self._before[record.prompt] = record
                self.line.activity.begin("generating, after fine-tuning")
            case events.TextGenerated():
                self._compare(record)
            case events.NodeLost() | events.Notice():
                self.line.print_line(f"{record.subject}: {record.message}" if record.subject else record.message)
            case _:
                self.line.take(record)

    def finish(self, run: Path) -> None:  # noqa: ARG002
        """Name the model."""
        self.line.print_line(self._loaded)
        self.line.stop()

    def cut_short(self, run: Path) -> None:  # noqa: ARG002
        """Show the answer before fine-tuning if the other one is missing."""
        self.line.clear()
        for record in self._before.values():
            _table([("before", record)], record.input)

    def _stream(self, piece: events.TextPiece) -> None:
        if self._begun != piece.prompt:
            self._begin(piece.prompt)
        # Cleaned here: the stream would take a piece that begins with a brace for JSON, and escape it instead.
        sys.stdout.write(clean(piece.text))
        sys.stdout.flush()

    def _begin(self, prompt: int) -> None:
        self.line.clear()
        self._begun = prompt
        if len(self._prompts) > 1:
            sys.stdout.write(f"> {_heading(self._prompts[prompt])}\n")

    def _end(self, answer: events.TextGenerated) -> None:
        if self._begun != answer.prompt:
            self._begin(answer.prompt)
        if not answer.text.endswith("\n"):
            sys.stdout.write("\n")
        if answer.prompt < len(self._prompts) - 1:
            sys.stdout.write("\n")
        sys.stdout.flush()
        self.line.print_line(_about(answer), "dim")

    def _compare(self, after: events.TextGenerated) -> None:
        self.line.clear()
        before = self._before.pop(after.prompt, None)
        _table([*([("before", before)] if before else []), ("after", after)], after.input)
        self.line.activity.begin("generating")


def _about(answer: events.TextGenerated) -> str:
    """Return how long an answer is, and why it ends there."""
    rate = f", {len(answer.tokens) / answer.seconds:,.1f} per second" if answer.seconds and answer.tokens else ""
    why = f"; {STOPS[answer.stop]}" if answer.stop in STOPS else ""
    return f"{plural(len(answer.tokens), 'token')}{rate}{why}" if answer.tokens else why.removeprefix("; ")


def _heading(prompt: str) -> str:
    line = printable(prompt)
    return line if len(line) <= HEADING_WIDTH else f"{line[: HEADING_WIDTH - 1]}…"


def _table(answers: list[tuple[str, events.TextGenerated]], prompt: str) -> None:
    """Print answers side by side, within the width of the terminal."""
    # Imported here because drawing is slow to load and often not needed.
    from rich.table import Table
    from rich.text import Text

    from railbed.cli.console import SafeConsole

    table = Table(title=Text(f"> {_heading(prompt)}"), title_justify="left", expand=True, title_style="bold")
    for when, answer in answers:
        why = f" ({STOPS[answer.stop]})" if answer.stop == "interrupted" else ""
        table.add_column(f"{when} fine-tuning{why}", ratio=1, overflow="fold")
    table.add_row(*(Text(answer.text.strip("\n")) for _, answer in answers))
    console = SafeConsole(highlight=False)
    console.print(table)
