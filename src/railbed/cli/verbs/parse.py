"""railbed parse"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import to_json
from rich.table import Table

from railbed.catalog import choose
from railbed.cli.console import SafeConsole
from railbed.errors import ParseError, UsageError
from railbed.model.output import MAX_OUTPUT_BYTES
from railbed.model.probe import Probe
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
    chosen = _probe(probe)
    try:
        facts = chosen.parse(_text(file))
    except ParseError as error:
        raise UsageError(f"{file} cannot be parsed as {probe}: {error.message}") from error
    sys.stdout.write(to_json({"kind": "facts", "probe": probe, "facts": facts}, indent=1).decode() + "\n")
    return 0


def _list() -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("probe", no_wrap=True)
    table.add_column("reads", overflow="fold")
    for name, probe in all_probes().items():
        table.add_row(name, probe.title)
    SafeConsole(highlight=False).print(table)


def _probe(name: str) -> Probe[Any]:
    return choose(all_probes(), name, kind="probe", listing="`railbed parse --list` names the probes")


def _text(file: Path) -> str:
    try:
        if str(file) == "-":
            if not sys.stdin:
                raise UsageError("standard input is closed", hint="name a file, or pipe the saved output in")
            return _limited(file, sys.stdin.buffer.read(MAX_OUTPUT_BYTES + 1))
        if file.is_dir():
            return folder_text(file)
        with file.open("rb") as saved:
            return _limited(file, saved.read(MAX_OUTPUT_BYTES + 1))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _limited(file: Path, data: bytes) -> str:
    if len(data) > MAX_OUTPUT_BYTES:
        raise UsageError(f"{file} is larger than {MAX_OUTPUT_BYTES // 2**20} MiB, which no probe prints")
    return data.decode("utf-8", "replace")


def folder_text(folder: Path) -> str:
    """Return a saved sysfs folder as `path:line` lines, in the form that a probe's command prints."""
    lines: list[str] = []
    top = folder.resolve() if folder.name in ("", "..") else folder
    for path in sorted(path for path in top.rglob("*") if path.is_file()):
        # A live sysfs has files that cannot be read (empty GID slots, write-only switches).
        with contextlib.suppress(OSError):
            text = path.read_bytes().decode("utf-8", "replace")
            lines += [f"{path.relative_to(top.parent)}:{line}" for line in text.splitlines()]
    return "\n".join(lines) + "\n"
