"""The screen of lab."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from railbed.api.stream import EventStream
from railbed.cli.run.signals import Interrupted, run_until_ended
from railbed.cli.screens.base import JsonScreen, Screen
from railbed.lab.model import Spec
from railbed.model import events
from railbed.model.record import Event, Record
from railbed.model.text import plural
from railbed.present.wording import cluster_option

SHOWN_ELSEWHERE = (events.LabStatus, events.LabUp, events.Progress)


class LabScreen(Screen):
    """Events of a lab on standard error."""

    def show(self, record: Record) -> None:
        """Update the progress line, or print an event."""
        self.line.take(record)
        if isinstance(record, Event) and not isinstance(record, SHOWN_ELSEWHERE):
            self.line.print_line(f"{record.subject}: {record.message}")

    def finish(self, run: Path) -> None:
        """Show nothing: a lab is not a run."""


def run_lab_verb(stream: EventStream, *, as_json: bool, interrupted: str = "") -> Sequence[Event]:
    """Run a verb of the lab to its end: as JSON lines on standard output, or its progress on standard error.

    `interrupted` is printed if Ctrl-C ends it.
    """
    screen: Screen = JsonScreen() if as_json else LabScreen()
    with screen:
        try:
            return run_until_ended(_show_all(stream, screen), screen.line.end)
        except KeyboardInterrupt:
            raise Interrupted(interrupted) from None


def show_up(spec: Spec, records: Sequence[Event], named: str = "") -> None:
    """Print how to use a lab; `named` is the option that selects it in a command, if needed."""
    ready = next(event for event in records if isinstance(event, events.LabUp))
    seconds = max(0.0, ready.time - records[0].time)
    jobs = (
        f"  run a job     railbed lab shell controller{named} -- srun -N {spec.nodes} hostname\n"
        if spec.scheduler
        else ""
    )
    sys.stdout.write(
        f"lab {spec.name!r} is up: {_parts(spec)}, {seconds:.1f} s\n"
        f"  check it      railbed check{cluster_option(ready.cluster)}\n"
        f"  log in        railbed lab shell node1{named}\n"
        f"{jobs}"
        f"  break it      railbed lab fault cut node1{named}\n"
        f"  end it        railbed lab down{named}\n"
    )


def show_status(records: Sequence[Event], *, here: str | None = None) -> None:
    """Print the labs with their nodes and faults; that of this folder's cluster file first."""
    labs = [event for event in records if isinstance(event, events.LabStatus)]
    labs.sort(key=lambda lab: lab.subject != here)
    if not labs:
        sys.stderr.write("no labs: `railbed lab up` creates one\n")
    for lab in labs:
        sys.stdout.write(_lab_text(lab, is_here=lab.subject == here))


async def _show_all(stream: EventStream, screen: Screen) -> list[Event]:
    shown: list[Event] = []
    async with aclosing(stream) as events_of_lab:
        async for event in events_of_lab:
            shown.append(event)
            screen.show(event)
    return shown


def _lab_text(lab: events.LabStatus, *, is_here: bool) -> str:
    kind = f"{lab.kind} {lab.arch}" if lab.arch else lab.kind
    lines = [
        f"{lab.subject}  {kind}, {_parts(lab)}, {lab.message}",
        f"  cluster file  {lab.cluster}{', and cluster.yaml in this folder' if is_here else ''}",
    ]
    groups: dict[str, list[str]] = {}
    for node, state in lab.states.items():
        groups.setdefault(state, []).append(node)
    lines += [f"  {state:<12}  {' '.join(nodes)}" for state, nodes in groups.items()]
    lines += [f"  fault         {fault.target}: {fault.text}" for fault in lab.faults]
    return "\n".join(lines) + "\n"


def _parts(lab: Spec | events.LabStatus) -> str:
    parts = [
        plural(lab.nodes, "node"),
        plural(lab.rails, "rail"),
        *([f"switch {lab.switch}"] if lab.switch else []),
        *(["Slurm"] if lab.scheduler else []),
    ]
    return ", ".join(parts)
