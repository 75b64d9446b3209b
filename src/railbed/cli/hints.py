"""The cluster file in use, which is added to the commands in hints and remedies.

Code below the command line does not have the path of the file, and neither do ranks on nodes. So it is added where
texts reach the user: in records before they are stored and shown, and in error messages.
"""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

from railbed.model.record import Record
from railbed.present.wording import add_cluster, advise

_in_use: ContextVar[Path | None] = ContextVar("cluster_file_in_use", default=None)


def use_cluster_file(file: Path | None) -> None:
    """Set the cluster file for all commands in later messages."""
    _in_use.set(file)


def command_line(command: str) -> str:
    """Return a command to type, with the cluster file in use."""
    return with_cluster(f"`{command}`").strip("`")


def with_cluster(text: str) -> str:
    """Return a text with the cluster file in use added to its commands."""
    return add_cluster(text, _in_use.get())


def add_cluster_file(record: Record) -> Record:
    """Return a record with the cluster file in the commands of its remedy, reason or message."""
    return advise(record, _in_use.get())
