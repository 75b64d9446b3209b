"""The parts of a section. Blocks contain plain text and numbers; each format escapes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any, ClassVar, Literal

from railbed.model.text import number
from railbed.present.wording import percent, seconds, size, with_unit

Tone = Literal["good", "notice", "bad", "quiet"]


@dataclass(frozen=True, slots=True)
class MarkCell:
    """A word with a tone, such as a verdict."""

    text: str
    tone: Tone = "quiet"


@dataclass(frozen=True, slots=True)
class Code:
    """Something to type or a name from a machine, in a fixed-width font."""

    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """A number as measured, and as people read it: pages show the text, formats for programs the value."""

    value: float
    unit: str
    text: str

    def __str__(self) -> str:
        return self.text


Cell = str | MarkCell | Code | Value


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A paragraph."""

    template: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a section."""

    template: ClassVar[str] = "heading"
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and their values."""

    template: ClassVar[str] = "facts"
    items: Sequence[tuple[str, Cell]]
    large: bool = False
    """Shown as a row of large numbers."""


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table; on a narrow screen it scrolls horizontally."""

    template: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[str] = ()
    """Right-aligned columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finding or event."""

    mark: MarkCell
    title: str
    text: str = ""
    detail: str = ""
    advice: str = ""
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class Entries:
    """A list of findings or events."""

    template: ClassVar[str] = "entries"
    items: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class ListBlock:
    """Preformatted text."""

    template: ClassVar[str] = "listing"
    text: str
    wrapped: bool = False
    """Prose rather than a file: long lines are wrapped."""


@dataclass(frozen=True, slots=True)
class BulletBlock:
    """A list of sentences."""

    template: ClassVar[str] = "bullets"
    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are shown on demand; on paper they are always shown."""

    template: ClassVar[str] = "fold"
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot: traces and layout for Plotly, with every point and digit; `drawing` reduces them.

    The value of a key that ends in `color` may be `$name`: a colour of the style sheet, which differs in the dark.
    """

    template: ClassVar[str] = "figure"
    title: str
    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    height: int = 300
    half: bool = False
    """Two of these are shown side by side if there is space."""

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The names of the lines and their colours in the style sheet; none if there is one line only."""
        named = [trace for trace in self.traces if trace.get("name") and trace.get("showlegend") is not False]
        keys = [(unescape(trace["name"]), (trace.get("line") or trace["marker"])["color"][1:]) for trace in named]
        return keys if len(keys) > 1 else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A packet on its way from one node to the other, by rows from the top."""

    to: Literal["left", "right"]
    text: str
    when: str
    sent: float
    arrived: float | None
    """None if it got lost."""
    note: str = ""
    tone: Tone = "quiet"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderBlock:
    """Packets between two nodes, from top to bottom as time passes: a drawing on a page, and a table for the rest."""

    template: ClassVar[str] = "ladder"
    name: str
    """Unique on its page."""
    title: str
    left: str
    right: str
    rungs: Sequence[Rung]
    """In the order in which they were sent: the label of each has a row of its own."""
    table: TableBlock
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBox:
    """A device, or several that are alike; x and y are its middle."""

    x: float
    y: float
    text: str
    is_switch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLine:
    """A link between two devices."""

    x1: float
    y1: float
    x2: float
    y2: float
    text: str
    colour: int
    """Number of a colour in the style sheet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBlock:
    """Devices and their links: a drawing on a page, and a table for the rest."""

    template: ClassVar[str] = "map"
    title: str
    width: float
    height: float
    box_width: float
    box_height: float
    boxes: Sequence[MapBox]
    lines: Sequence[MapLine]
    keys: Sequence[tuple[str, int]]
    """The rails and the numbers of their colours."""
    table: TableBlock
    note: str = ""


Block = (
    TextBlock
    | Heading
    | Facts
    | TableBlock
    | Entries
    | ListBlock
    | BulletBlock
    | Fold
    | Figure
    | LadderBlock
    | MapBlock
)


def show_with_unit(value: float, unit: str) -> Value:
    """Return a value that is shown with its unit."""
    return Value(value, unit, with_unit(value, unit))


def bare(value: float, unit: str) -> Value:
    """Return a value whose unit is shown elsewhere, such as in a separate column."""
    return Value(value, unit, number(value))


def duration(value: float) -> Value:
    """Return a time in seconds."""
    return Value(value, "s", seconds(value))


def byte_count(value: float) -> Value:
    """Return an amount of data."""
    return Value(value, "byte", size(value))


def share(value: float) -> Value:
    """Return a share (0 to 1), shown as a percentage."""
    return Value(value, "1", percent(value))


def count(value: int) -> Value:
    """Return a number of items."""
    return Value(value, "1", f"{value:,}")
