"""railbed parse"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json
from rich.table import Table

from railbed.api.verbs.parse import output_text, parse, probe_named
from railbed.cli.console import SafeConsole
from railbed.errors import UsageError
from railbed.model.reading import MAX_OUTPUT_BYTES
from railbed.probes.outputs import all_probes

ProbeArgument = Annotated[str | None, typer.Argument(metavar="PROBE", help="Name of the probe.")]
FileArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A saved output, a saved sysfs folder, or - for standard input.")
]
ListOption = Annotated[bool, typer.Option("--list", help="List the probes and exit.")]


def parse_command(probe: ProbeArgument = None, file: FileArgument = None, show_list: ListOption = False) -> int:
    """Print the facts that a probe reads from a saved output, as JSON.

    Example: ethtool -S ens224 > saved.txt; railbed parse ethtool_stats saved.txt
    """
    if show_list:
        _list()
        return 0
    if probe is None or file is None:
        raise UsageError("a probe and a file are needed", hint="`railbed parse --list` names the probes")
    probe_named(probe)  # before standard input is read
    facts = parse(probe, _standard_input() if str(file) == "-" else file)
    sys.stdout.write(to_json({"kind": "facts", "probe": probe, "facts": facts}, indent=1).decode() + "\n")
    return 0


def _list() -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("probe", no_wrap=True)
    table.add_column("reads", overflow="fold")
    for name, probe in all_probes().items():
        table.add_row(name, probe.title)
    SafeConsole(highlight=False).print(table)


def _standard_input() -> str:
    if not sys.stdin:
        raise UsageError("standard input is closed", hint="name a file, or pipe the saved output in")
    return output_text(sys.stdin.buffer.read(MAX_OUTPUT_BYTES + 1), "standard input")
