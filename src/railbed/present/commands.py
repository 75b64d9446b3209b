"""Adds a cluster file to the commands in hints and remedies, so that they can be pasted as they are."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

from railbed.model.record import Change, Event, Finding, Record

DEFAULT_CLUSTER = Path("cluster.yaml")
"""The cluster file of a folder."""
COMMAND = re.compile(r"`(railbed (?:discover|check|configure|bench|train|capture)(?: [^`\n]*)?)`")
"""A command of a verb that takes a cluster file."""
WITHOUT_CLUSTER = re.compile(
    r" (?:-c|--cluster|--explain|--list|--attach|--stop|--resume|--second-visit|--from|--help)\b"
)
"""Options with which a command needs no cluster file."""


def cluster_option(file: Path | str | None) -> str:
    """Return the option for a cluster file, quoted for a shell; empty for the default file."""
    return f" -c {shlex.quote(str(file))}" if file is not None and Path(file) != DEFAULT_CLUSTER else ""


def add_cluster(text: str, file: Path | None) -> str:
    """Return a text with a cluster file added to its commands."""
    option = cluster_option(file)
    if not option or "`railbed " not in text:
        return text
    return COMMAND.sub(lambda match: f"`{match[1]}{'' if WITHOUT_CLUSTER.search(match[1]) else option}`", text)


def advise(record: Record, file: Path | None) -> Record:
    """Return a record with a cluster file in the commands of its remedy, reason or message."""
    match record:
        case Finding(remedy=text) if text and (complete := add_cluster(text, file)) != text:
            return replace(record, remedy=complete)
        case Change(left_out=text) if text and (complete := add_cluster(text, file)) != text:
            return replace(record, left_out=complete)
        case Event(message=text) if text and (complete := add_cluster(text, file)) != text:
            return replace(record, message=complete)
    return record
