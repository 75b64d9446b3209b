"""`railbed.parse`: the facts that a probe reads from a saved output."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from railbed.catalog import choose
from railbed.errors import ParseError, UsageError
from railbed.model.probe import Probe
from railbed.model.reading import MAX_OUTPUT_BYTES
from railbed.probes.outputs import all_probes


def parse(probe: str, output: str | os.PathLike[str]) -> Any:  # noqa: ANN401  (each probe has its own facts)
    """Return the facts that a probe reads from a saved output, as objects of the probe's own.

    `output` is its text, or the path of a file (a `Path`), or of a saved folder of sysfs.
    """
    chosen = probe_named(probe)
    where = "the text" if isinstance(output, str) else os.fspath(output)
    try:
        return chosen.parse(output if isinstance(output, str) else _text(Path(output)))
    except ParseError as error:
        raise UsageError(f"{where} cannot be parsed as {probe}: {error.message}") from error


def probe_named(name: str) -> Probe[Any]:
    """Return a probe; raise UsageError, with similar names, if there is none."""
    return choose(all_probes(), name, kind="probe", listing="`railbed parse --list` names the probes")


def output_text(data: bytes, where: str) -> str:
    """Return the text of a saved output; raise UsageError if it is longer than any probe prints."""
    if len(data) > MAX_OUTPUT_BYTES:
        raise UsageError(f"{where} is larger than {MAX_OUTPUT_BYTES // 2**20} MiB, which no probe prints")
    return data.decode("utf-8", "replace")


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            return _folder_text(path)
        with path.open("rb") as saved:
            return output_text(saved.read(MAX_OUTPUT_BYTES + 1), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _folder_text(folder: Path) -> str:
    """Return a saved sysfs folder as `path:line` lines, in the form that a probe's command prints."""
    lines: list[str] = []
    top = folder.resolve() if folder.name in ("", "..") else folder
    for path in sorted(path for path in top.rglob("*") if path.is_file()):
        # A live sysfs has files that cannot be read (empty GID slots, write-only switches).
        with suppress(OSError):
            text = path.read_bytes().decode("utf-8", "replace")
            lines += [f"{path.relative_to(top.parent)}:{line}" for line in text.splitlines()]
    return "\n".join(lines) + "\n"
