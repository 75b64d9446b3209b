"""What an esxcli command returns, before it is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Value = str | int | bool | tuple[str, ...] | Mapping[str, "Value"]
Fields = Mapping[str, Value]
"""Values by the label that the text form has, such as `Link Status`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One or several structures of a type."""

    type_name: str
    structures: Sequence[Fields]
    columns: Sequence[str] = ()
    """The labels of a table, which has a heading even if it is empty."""
    titles: Sequence[str] = ()
    """The line above each structure of a list that is not a table."""
    heading: str = ""
    """A line above a single structure."""
    is_single: bool = False
    indent: str = field(default="   ")

    @property
    def is_table(self) -> bool:
        return bool(self.columns)


def single(type_name: str, fields: Fields, *, heading: str = "") -> Answer:
    """Return an answer that is one structure."""
    return Answer(type_name=type_name, structures=[fields], heading=heading, is_single=True)


def identifier(label: str) -> str:
    """Return a label as the other formats have it: without spaces."""
    return "".join(character for character in label if character.isalnum())
