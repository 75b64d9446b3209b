"""Memory, swap and huge pages (`/proc/meminfo`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

LINE = re.compile(r"(?P<name>[^:\s]+):\s+(?P<count>\d+)(?P<unit> kB)?", re.ASCII)
COUNTED = "HugePages_"
"""Fields with this prefix count pages; all others are in kB, and a line without the unit is truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(TextFacts):
    """Memory of a machine, in bytes."""

    total: int
    available: int | None = None
    """Memory that programs can allocate without swapping; kernels before 3.14 do not report it."""
    swap_total: int | None = None
    swap_free: int | None = None
    huge_pages_total: int | None = None
    """Huge pages of the default size, as a count."""
    huge_pages_free: int | None = None
    huge_page_size: int | None = None

    @property
    def swap_used(self) -> int | None:
        """Bytes that were swapped out."""
        return None if self.swap_total is None or self.swap_free is None else self.swap_total - self.swap_free


def parse(text: str) -> Memory:
    """Read /proc/meminfo."""
    lines = Lines(text)
    values: dict[str, int] = {}
    for line in lines:
        with lines.reading(line):
            name, value = _value(line)
            values[name] = value
    lines.require(values.get("MemTotal"), "no MemTotal")
    return Memory(
        total=values["MemTotal"],
        available=values.get("MemAvailable"),
        swap_total=values.get("SwapTotal"),
        swap_free=values.get("SwapFree"),
        huge_pages_total=values.get("HugePages_Total"),
        huge_pages_free=values.get("HugePages_Free"),
        huge_page_size=values.get("Hugepagesize"),
        not_understood=lines.not_understood,
    )


def _value(line: str) -> tuple[str, int]:
    match = LINE.fullmatch(line.strip())
    if not match or (match["unit"] is None) != match["name"].startswith(COUNTED):
        raise ParseError("expected `name: number kB`", line=line)
    return match["name"], integer(match["count"]) * (1024 if match["unit"] else 1)


PROBE = Probe(
    name="memory",
    title="memory, swap, huge pages",
    command="cat /proc/meminfo",
    parse=parse,
    facts=Memory,
)
