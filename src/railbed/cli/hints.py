"""Adds the cluster file in use to the commands in hints and remedies, so that they can be pasted as they are.

Code below the command line does not have the path of the file, and neither do ranks on nodes. So it is added where
texts reach the user: in records before they are stored and shown, and in error messages.
"""

from __future__ import annotations

import re
import shlex
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from railbed.api.reach import DEFAULT_CLUSTER
from railbed.model.record import Change, Event, Finding, Record

COMMAND = re.compile(r"`(railbed (?:discover|check|configure|bench|train|capture)(?: [^`\n]*)?)`")
"""A command of a verb that takes a cluster file."""
WITHOUT_CLUSTER = re.compile(
    r" (?:-c|--cluster|--explain|--list|--attach|--stop|--resume|--second-visit|--from|--help)\b"
)
"""Options with which a command needs no cluster file."""

_in_use: ContextVar[Path | None] = ContextVar("cluster_file_in_use", default=None)


def use_cluster_file(file: Path | None) -> None:
    """Set the cluster file for all commands in later messages."""
    _in_use.set(file)


def cluster_option(file: Path | str | None) -> str:
    """Return the option for a cluster file, quoted for a shell; empty for the default file."""
    return f" -c {shlex.quote(str(file))}" if file is not None and Path(file) != DEFAULT_CLUSTER else ""


def command_line(command: str) -> str:
    """Return a command to type, with the cluster file in use."""
    return with_cluster(f"`{command}`").strip("`")


def with_cluster(text: str) -> str:
    """Return a text with the cluster file in use added to its commands."""
    option = cluster_option(_in_use.get())
    if not option or "`railbed " not in text:
        return text
    return COMMAND.sub(lambda match: f"`{match[1]}{'' if WITHOUT_CLUSTER.search(match[1]) else option}`", text)


def advised(record: Record) -> Record:
    """Return a record with the cluster file in the commands of its remedy, reason or message."""
    match record:
        case Finding(remedy=text) if text and (complete := with_cluster(text)) != text:
            return replace(record, remedy=complete)
        case Change(left_out=text) if text and (complete := with_cluster(text)) != text:
            return replace(record, left_out=complete)
        case Event(message=text) if text and (complete := with_cluster(text)) != text:
            return replace(record, message=complete)
    return record
