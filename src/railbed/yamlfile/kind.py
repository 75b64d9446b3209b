"""The properties of a kind of file that people write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from railbed.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """A kind of file."""

    noun: str
    """With its article: `a cluster file`."""
    model: type[BaseModel]
    error: type[UserError]
    keys: str
    """Some keys of the top level, as the middle of a sentence: `name and nodes`."""
    hint: str = ""
    """What to do if the file does not exist."""
    habits: Mapping[str, str] = field(default_factory=dict)
    """Keys of other tools, and the equivalent keys here."""
