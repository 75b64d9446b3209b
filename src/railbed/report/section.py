"""The interface of a section: a pure function from a run's data to blocks, in its own file.

A section's file has a `show` function and one `SECTION`. `show` returns None if the section does not apply to the run.
`headline` adds a clause to the verdict's sentence. `methods` describes, for each measure of the section, how it was
measured; the section `method` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from railbed.report.blocks import Block, Tone
from railbed.report.reading.run import RunData


@dataclass(frozen=True, slots=True)
class Headline:
    """A clause of the verdict: without a capital and without a full stop."""

    text: str
    tone: Tone = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of the page."""

    name: str
    """The name of its file, and the anchor on the page."""
    title: str
    order: int
    show: Callable[[RunData], Sequence[Block] | None]
    headline: Callable[[RunData], Headline | None] = lambda _: None
    methods: Mapping[str, str] = field(default_factory=dict)
