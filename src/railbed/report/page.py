"""Puts the sections together into one file that needs nothing else: style, scripts and data stand in it.

Nothing that a device said can become markup: blocks hold text, and the templates escape it. Should anything slip
through, the page's own policy runs no script but the two that are named in it by their hash, and fetches nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from railbed import __version__
from railbed.errors import ToolMissing
from railbed.report.blocks import Block, Figure, Fold, Tone
from railbed.report.catalogue import all_sections
from railbed.report.data import RunData
from railbed.report.section import Headline
from railbed.report.words import JOIN, clean, moment

_BACKTICKS = re.compile(r"`([^`\n]+)`")
TEMPLATES = Path(__file__).parent / "templates"
TONES: tuple[Tone, ...] = ("bad", "notice", "good", "quiet")
TONE_WORDS = {"bad": "Not well", "notice": "Worth a look", "good": "All well", "quiet": ""}


@dataclass(frozen=True, slots=True)
class Page:
    """A page, and what is on it."""

    html: str
    verdict: str
    sections: Sequence[str]
    figures: int


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    title: str
    blocks: Sequence[Block]


def build(run: RunData) -> Page:
    """Build the page of a run."""
    parts = [_Part(section.name, section.title, blocks) for section in all_sections() if (blocks := section.show(run))]
    figures = sum(isinstance(block, Figure) for part in parts for block in _all_blocks(part.blocks))
    verdict = _verdict([told for section in all_sections() if (told := section.headline(run))])
    scripts = [_plotly(), (TEMPLATES / "page.js").read_text(encoding="utf-8")] if figures else []
    html = (
        _environment()
        .get_template("page.html")
        .render(
            run=run,
            verdict=verdict,
            tone_word=TONE_WORDS[verdict.tone],
            parts=parts,
            policy=_policy(scripts),
            scripts=[Markup(script) for script in scripts],  # noqa: S704  (ours and Plotly's, the same in every page)
            style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),  # noqa: S704
            began=moment(run.summary.started),
            version=__version__,
        )
    )
    return Page(html, verdict.text.replace(JOIN, " "), [part.name for part in parts], figures)


def _verdict(told: Sequence[Headline]) -> Headline:
    """Return one sentence from all clauses; its tone is the worst of theirs."""
    tone = min((one.tone for one in told), key=TONES.index)
    first, *others = (told[0].text, *(one.text for one in sorted(told[1:], key=lambda one: one.tone != "bad")))
    sentence = f"{first}: {'; '.join(others)}." if others else f"{first}."
    return Headline(sentence[0].upper() + sentence[1:], tone)


def _all_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from _all_blocks(block.blocks)


def _policy(scripts: Sequence[str]) -> str:
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    # Plotly styles what it draws, so styles may stand in the page.
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


@cache
def _plotly() -> str:
    """Return Plotly's JavaScript from its wheel, which need not be imported for it."""
    spec = find_spec("plotly")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text(encoding="utf-8").replace("</script", r"<\/script").replace("<!--", r"<\!--")
    raise ToolMissing("the Python package plotly is not installed here, and the plots need it", hint="make setup")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    environment.filters["prose"] = _prose
    environment.filters["figure_json"] = _figure_json
    environment.tests["of"] = lambda value, name: type(value).__name__ == name
    return environment


def _prose(text: str) -> Markup:
    """Return text in which what stands between `backticks` is set as code."""
    parts = _BACKTICKS.split(clean(text))
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _figure_json(figure: Figure) -> Markup:
    """Return a figure as JSON that can stand in a script element: no character in it can end one."""
    content: dict[str, Any] = {"data": figure.traces, "layout": figure.layout, "height": figure.height}
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for char in "<>&'":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704  (made safe right above)
