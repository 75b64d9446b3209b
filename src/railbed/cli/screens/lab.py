"""What the user sees of a lab."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from railbed.cli.hints import cluster_option
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.signals import Interrupted, run_until_ended
from railbed.lab.model import Spec
from railbed.model.progress import PROGRESS
from railbed.model.record import Event, Record

QUIET = ("lab", "lab_up", PROGRESS)
"""Events that are shown in a form of their own."""


class LabScreen(Screen):
    """What happens to a lab, on standard error."""

    def show(self, record: Record) -> None:
        """Move the progress line, or say what happened."""
        self.line.take(record)
        if isinstance(record, Event) and record.name not in QUIET:
            self.line.say(f"{record.subject}: {record.message}")

    def finish(self, run: Path) -> None:
        """A lab is no run."""


def tell(records: AsyncGenerator[Record, None], *, as_json: bool, interrupted: str = "") -> Sequence[Event]:
    """Run a verb of the lab to its end: as JSON lines on standard output, or its progress on standard error.

    `interrupted` says what is left of it where Ctrl-C ends it.
    """
    screen: Screen = JsonScreen() if as_json else LabScreen()
    with screen:
        try:
            return run_until_ended(_tell(records, screen), screen.line.end)
        except KeyboardInterrupt:
            raise Interrupted(interrupted) from None


def show_up(spec: Spec, records: Sequence[Event], named: str = "") -> None:
    """Print how to use a lab; `named` is the option that names it in a command, where that is needed."""
    ready = next(event for event in records if event.name == "lab_up")
    cluster, seconds = ready.data["cluster"], ready.time - records[0].time
    sys.stdout.write(
        f"lab {spec.name!r} is up: {_counted(spec.nodes, 'node')}, {_counted(spec.rails, 'rail')}, {seconds:.1f} s\n"
        f"  look at it    railbed check{cluster_option(str(cluster))}\n"
        f"  log in        railbed lab shell node1{named}\n"
        f"  break it      railbed lab fault cut node1{named}\n"
        f"  end it        railbed lab down{named}\n"
    )


def show_status(records: Sequence[Event]) -> None:
    """Print the labs with their nodes and faults."""
    labs = [event for event in records if event.name == "lab"]
    if not labs:
        sys.stderr.write("no labs: `railbed lab up` creates one\n")
    for event in labs:
        sys.stdout.write(_lab_text(event.subject, event.message, event.data))


async def _tell(records: AsyncGenerator[Record, None], screen: Screen) -> list[Event]:
    told = [Event(name="start", time=time.time())]
    async with aclosing(records):
        async for record in records:
            assert isinstance(record, Event)
            told.append(record)
            screen.show(record)
    return told


def _lab_text(name: str, state: str, data: Mapping[str, Any]) -> str:
    lines = [
        f"{name}  {_kind(data)}, {_counted(data['nodes'], 'node')}, {_counted(data['rails'], 'rail')}, {state}",
        f"  cluster file  {data['cluster']}",
    ]
    groups: dict[str, list[str]] = {}
    for node, how in data["states"].items():
        groups.setdefault(how, []).append(node)
    lines += [f"  {how:<12}  {' '.join(nodes)}" for how, nodes in groups.items()]
    lines += [f"  fault         {fault['target']}: {fault['text']}" for fault in data["faults"]]
    return "\n".join(lines) + "\n"


def _kind(data: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (data["kind"], data.get("arch"))))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
