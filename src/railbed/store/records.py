"""Reads a record from its line."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from railbed.model.record import Change, Event, Finding, Measurement, Record

_RECORD: TypeAdapter[Record] = TypeAdapter(
    Annotated[Finding | Measurement | Change | Event, Field(discriminator="kind")]
)


def read_record(line: bytes) -> Record:
    """Return the record that a line holds; raise ValueError where it is damaged, or of a kind not known here."""
    return _RECORD.validate_json(line)
