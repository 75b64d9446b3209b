"""A record as its line, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter
from pydantic_core import to_json

from railbed.model import events
from railbed.model.record import Change, Event, Finding, Measurement, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventLine:
    """An event as its line has it."""

    kind: Literal["event"]
    name: str
    subject: str = ""
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    time: float = 0.0


@cache
def _line() -> TypeAdapter[Finding | Measurement | Change | _EventLine]:
    """Return what reads a line; most runs only write them."""
    return TypeAdapter(Annotated[Finding | Measurement | Change | _EventLine, Field(discriminator="kind")])


def read_record(line: bytes) -> Record:
    """Return the record that a line holds; raise ValueError if it is damaged or not listed in this version."""
    record = _line().validate_json(line)
    if not isinstance(record, _EventLine):
        return record
    return events.parse(record.name, subject=record.subject, message=record.message, data=record.data, time=record.time)


def to_line(record: Record) -> bytes:
    """Return a record as one line of JSON, without the line break."""
    if not isinstance(record, Event):
        return to_json(record)
    head = {"name": record.name, "subject": record.subject, "message": record.message}
    return to_json({**head, "data": record.data, "time": record.time, "kind": "event"})
