"""The content of a report: a verdict and sections of blocks. Every format is written from this.

A section is a pure function from data, of a run or of a cluster, to blocks, in a file of its own with a `show` function
and one `SECTION`. `show` returns None if the section does not apply to the data. `headline` adds a clause to the
verdict's sentence. `methods` describes, for each measure of the section, how it was measured; the section `method`
lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Generic, TypeVar

from railbed import catalog
from railbed.present.wording import JOIN, moment
from railbed.report import sections
from railbed.report.blocks import Block, Figure, Fold, Tone
from railbed.report.reading.run import RunData
from railbed.store.run import Status

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Headline:
    """A clause of the verdict: without a capital and without a full stop."""

    text: str
    tone: Tone = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[D]):
    """One section of a page about data of a kind."""

    name: str
    """The name of its file, and the anchor on the page."""
    title: str
    order: int
    show: Callable[[D], Sequence[Block] | None]
    headline: Callable[[D], Headline | None] = lambda _: None
    methods: Mapping[str, str] = field(default_factory=dict)


@cache
def all_sections() -> tuple[Section[RunData], ...]:
    """Return every section of the page about a run, in its order."""
    return sections_in(sections)


def sections_in(package: ModuleType) -> tuple[Section[D], ...]:
    """Return every section of a package, in the order of the page."""
    plugins = catalog.collect(package, Section, "SECTION").values()
    return tuple(sorted(plugins, key=lambda section: (section.order, section.name)))


TONES: tuple[Tone, ...] = ("bad", "notice", "good", "quiet")
STATUS_WORDS: Mapping[Status, str] = {"stopped": "Stopped", "running": "In progress"}
"""The word above the verdict for runs without a result of their own, whatever the verdict is."""
TONE_WORDS = {"bad": "Failed", "notice": "Needs attention", "good": "All passed", "quiet": ""}


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section with its blocks."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report, independent of its format."""

    title: str
    """The subject: the name of a run."""
    over: str
    """The line above the verdict."""
    verdict: Headline
    tone_word: str
    parts: Sequence[ReportSection]

    @property
    def sentence(self) -> str:
        """The verdict as plain text."""
        return self.verdict.text.replace(JOIN, " ")

    @property
    def sections(self) -> list[str]:
        """The names of the sections, in their order."""
        return [part.name for part in self.parts]

    @property
    def figures(self) -> int:
        """How many plots there are."""
        return sum(isinstance(block, Figure) for part in self.parts for block in all_blocks(part.blocks))


def describe(run: RunData) -> Report:
    """Return the report about a run."""
    verdict, parts = write_sections(all_sections(), run)
    return Report(
        title=run.summary.id,
        over=f"railbed {run.summary.verb} on {run.summary.cluster}, {moment(run.summary.started)}",
        verdict=verdict,
        tone_word=STATUS_WORDS.get(run.summary.status) or TONE_WORDS[verdict.tone],
        parts=parts,
    )


def write_sections(chosen: Sequence[Section[D]], data: D) -> tuple[Headline, list[ReportSection]]:
    """Return the verdict of all sections about the same data, and their blocks."""
    headlines = [headline for section in chosen if (headline := section.headline(data))]
    parts = [ReportSection(section.name, section.title, blocks) for section in chosen if (blocks := section.show(data))]
    return _verdict(headlines), parts


def all_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield every block, including folded ones."""
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from all_blocks(block.blocks)


def _verdict(headlines: Sequence[Headline]) -> Headline:
    """Return one sentence from all clauses; its tone is the worst of theirs."""
    tone = min((headline.tone for headline in headlines), key=TONES.index)
    first, *others = (
        headlines[0].text,
        *(headline.text for headline in sorted(headlines[1:], key=lambda headline: headline.tone != "bad")),
    )
    sentence = f"{first}: {'; '.join(others)}." if others else f"{first}."
    return Headline(sentence[0].upper() + sentence[1:], tone)
