"""Show recorded records as the command line would show them live.

`python -m tools.show_records SCREEN FILE [SCREEN FILE …]` shows several, with the control character RS between them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from railbed.api.stream import EventStream
from railbed.cli.screens.base import Screen
from railbed.cli.screens.bench import BenchScreen
from railbed.cli.screens.lab import run_lab_verb, show_up
from railbed.cli.screens.text import TextScreen
from railbed.lab.model import Spec
from railbed.model.record import Event, Record
from railbed.store import read_record
from tools.pictures import BETWEEN, RUN


def main() -> None:
    """Show the records of each file on its screen."""
    names, files = sys.argv[1::2], sys.argv[2::2]
    for number, (name, file) in enumerate(zip(names, files, strict=True)):
        if number:
            print(BETWEEN, end="", flush=True)
        _show_file(name, [read_record(line) for line in Path(file).read_bytes().splitlines()])


def _show_file(name: str, records: list[Record]) -> None:
    """Show records on a screen: check, bench, lab or lab_up."""
    if name == "check":
        _show(TextScreen(verbose=False), records, Path(RUN.format(name)))
    elif name == "bench":
        _show(BenchScreen(verbose=False), records, Path(RUN.format(name)))
    else:
        events = run_lab_verb(EventStream(name, lambda: _each(records)), as_json=False)
        if name == "lab_up":
            nodes = sum(isinstance(record, Event) and record.name == "lab_node_up" for record in records)
            show_up(Spec(name="lab", kind="netns", nodes=nodes), events)


def _show(screen: Screen, records: list[Record], run: Path) -> None:
    with screen:
        screen.begin(run)
        for record in records:
            screen.show(record)
        screen.finish(run)


async def _each(records: list[Record]) -> AsyncGenerator[Record, None]:
    for record in records:
        await asyncio.sleep(0)
        yield record


if __name__ == "__main__":
    main()
