"""The list to tick while a cluster is brought up: boxes on a terminal, Markdown in a pipe, a JSON object per box."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pydantic_core import to_json
from rich.text import Text

from railbed.check.checklist import ChecklistItem
from railbed.cli.console import SafeConsole, print_hanging
from railbed.cli.hints import command_line
from railbed.model.text import plural, printable
from railbed.present.groups import group_by
from railbed.present.wording import moment, name_range
from railbed.rules.rule import Stage

TITLES: Mapping[Stage, str] = {
    "power": "Power and logins",
    "cabling": "Cabling",
    "BIOS": "BIOS and slots",
    "host": "Hosts",
    "card": "Cards",
    "switch": "Switches",
    "rail": "Rails",
    "environment": "Environment for training",
}
MOST_SHOWN = 4
"""Of what is still wrong with a box."""
BOX = 4
"""Columns of `[x] `."""


def print_checklist(cluster: str, items: Sequence[ChecklistItem], *, as_json: bool) -> None:
    """Print the boxes of a cluster in the form that fits where they go."""
    if as_json:
        for item in items:
            sys.stdout.write(to_json(item).decode() + "\n")
    elif sys.stdout.isatty():
        _print_boxes(cluster, items)
    else:
        sys.stdout.write("\n".join(_markdown(cluster, items)) + "\n")


def _print_boxes(cluster: str, items: Sequence[ChecklistItem]) -> None:
    console = SafeConsole(highlight=False)
    print_hanging(console, Text(_heading(cluster), style="bold"), indent=BOX)
    print_hanging(console, Text(_summary(items)), indent=BOX)
    for title, of_stage in _stages(items):
        console.print(Text(f"\n{title}", style="bold"))
        for item in of_stage:
            box = Text("[x] " if item.is_done else "[ ] ", style="green" if item.is_done else "")
            hand = ("by hand: ", "bold") if item.by_hand else ""
            command = (f"  {command_line(item.command)}", "cyan")
            print_hanging(
                console,
                Text.assemble((f"{_names(item.subjects)}  ", "bold"), hand, item.text, command),
                first=box,
                indent=BOX,
            )
            for line in _remaining(item):
                print_hanging(console, Text(line, style="red"), first=Text(" " * BOX), indent=BOX + 2)


def _markdown(cluster: str, items: Sequence[ChecklistItem]) -> Iterator[str]:
    yield f"# {_heading(cluster)}"
    yield ""
    yield _summary(items)
    for title, of_stage in _stages(items):
        yield from ("", f"## {title}", "")
        for item in of_stage:
            hand = "by hand: " if item.by_hand else ""
            box = "x" if item.is_done else " "
            text = f"**{_names(item.subjects)}**: {hand}{printable(item.text)} (`{command_line(item.command)}`)"
            yield f"- [{box}] {text}"
            yield from (f"  - `{line.replace('`', chr(39))}`" for line in _remaining(item))


def _heading(cluster: str) -> str:
    return f"Checklist of {printable(cluster)}"


def _summary(items: Iterable[ChecklistItem]) -> str:
    """Say when it was checked, and how much is done."""
    listed = list(items)
    done = sum(item.is_done for item in listed)
    checked = [item.time for item in listed if item.time is not None]
    command = f"`{command_line('railbed check')}`"
    if not checked:
        return f"Nothing is checked yet: {command} ticks what passes."
    count = f"{done} of {plural(len(listed), 'box', 'boxes')}"
    return f"{count} ticked, as checked until {moment(max(checked))}; {command} checks again."


def _stages(items: Iterable[ChecklistItem]) -> Iterator[tuple[str, list[ChecklistItem]]]:
    for number, (stage, of_stage) in enumerate(groupby(items, key=lambda item: item.stage), 1):
        yield f"{number}. {TITLES[stage]}", list(of_stage)


def _names(subjects: Sequence[str]) -> str:
    """Return the names of devices, or of ports by device or, if several devices have the same, by port."""
    places = [subject.partition("/") for subject in dict.fromkeys(subjects)]
    if not all(slash for _, slash, _ in places) or len(places) == 1:
        return printable(name_range(subjects))
    by_device = group_by(places, key=lambda place: place[0])
    if len(by_device) == 1:
        return printable(f"{places[0][0]}/{name_range(port for _, _, port in places)}")
    by_port = group_by(places, key=lambda place: place[2])
    return printable(", ".join(f"{same[0][2]} of {name_range(node for node, _, _ in same)}" for same in by_port))


def _remaining(item: ChecklistItem) -> Iterator[str]:
    """Yield what is wrong, a line each, and how much more there is."""
    for text in item.remaining[:MOST_SHOWN]:
        yield printable(f"{item.verdict}: {text}")
    if len(item.remaining) > MOST_SHOWN:
        yield f"and {len(item.remaining) - MOST_SHOWN} more"
