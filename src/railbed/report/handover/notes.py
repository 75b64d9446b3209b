"""The notes of a cluster: a Markdown file beside the cluster file, which people write and the page includes.

railbed creates it with headings if it is missing, and never changes it. The page shows headings, lists, paragraphs and
fenced code; all else stays text, so that nothing in the file can become a link or a tag.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from railbed.errors import UsageError, os_reason
from railbed.model.private import scrub
from railbed.model.regular import read_regular
from railbed.report.blocks import Block, BulletBlock, Heading, ListBlock, TextBlock

MOST_BYTES = 1 << 20
TEMPLATE = """# Notes on {name}

<!-- `railbed report --cluster` includes this file, and never changes it. No passwords: write where they are. -->

## Who to ask

## Where the machines are, and how to switch them off and on

## Where the passwords are

## Known problems

## What was changed, and when
"""
_HEADING = re.compile(r"#{1,6}[ \t]+(\S.*)")
_BULLET = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(\S.*)")
_FENCES = ("```", "~~~")


def path_beside(cluster_file: Path) -> Path:
    """Return the path of the notes of a cluster file."""
    return cluster_file.with_name(f"{cluster_file.stem}.notes.md")


def create(path: Path, name: str) -> bool:
    """Write the template unless there is something at this path; return whether it was written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=name))
    except OSError:  # it exists, or the folder is read-only: the page does without it
        return False
    return True


def read(path: Path, name: str) -> str:
    """Return the notes without what looks like a secret; empty if nobody has written any."""
    if not os.path.lexists(path):
        return ""
    try:
        text = scrub(read_regular(path, MOST_BYTES)).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"the notes {path} cannot be read: {os_reason(error)}") from error
    return "" if text.strip() == TEMPLATE.format(name=name).strip() else text


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the notes as blocks."""
    lines = iter([*"".join(_without_comments(text)).splitlines(), ""])
    paragraph: list[str] = []
    bullets: list[list[str]] = []
    for line in lines:
        words = line.strip()
        bullet = _BULLET.fullmatch(words)
        is_continued = bool(bullets) and bool(words) and line[:1] in " \t" and not bullet
        if bullets and not bullet and not is_continued:
            yield BulletBlock(tuple(map(" ".join, bullets)))
            bullets = []
        if is_continued:
            bullets[-1].append(words)
            continue
        heading = _HEADING.fullmatch(words)
        if paragraph and (not words or bullet or heading or words.startswith(_FENCES)):
            yield TextBlock(" ".join(paragraph))
            paragraph = []
        if bullet:
            bullets.append([bullet[1]])
        elif heading:
            yield Heading(heading[1].rstrip("# "))
        elif words.startswith(_FENCES):
            yield ListBlock("\n".join(_take_fenced(lines, words[:3])))
        elif words:
            paragraph.append(words)


def _without_comments(text: str) -> Iterator[str]:
    """Yield the text between comments; a comment that does not end is text."""
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        yield text[at:start]
        at = end + len("-->")
    yield text[at:]


def _take_fenced(lines: Iterator[str], fence: str) -> Iterator[str]:
    """Yield the lines up to the end of the fence, or of the notes."""
    for line in lines:
        if line.strip().startswith(fence):
            return
        yield line
