"""The shell around a tool: pins it to the CPUs near the card, and reads the CPU time of the node before and after.

Its output has sections, so that the output of the tool stays untouched: `about` (with the version), `output`, `after`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from railbed.bench.tool import End
from railbed.errors import ParseError
from railbed.parsing.text import SECTION, integer

BUSY = (0, 1, 2, 5, 6, 7)
"""Columns of /proc/stat: user, nice, system, irq, softirq, steal; neither idle nor waiting for a disk."""


def wrap(command: str, end: End, *, version: str = "") -> str:
    """Return the script that runs a command on the CPUs near a port."""
    pin = ""
    if end.netdev:
        cpus = shlex.quote(f"/sys/class/net/{end.netdev}/device/local_cpulist")
        pin = f'cpus=$(cat {cpus} 2>/dev/null) && taskset -cp "$cpus" $$ >/dev/null 2>&1 && echo "pinned $cpus"\n'
    print_version = f"{version} 2>&1 | head -n 1 | sed 's/^/version /'\n" if version else ""
    return (
        f"echo '==> about <=='\n{pin}{print_version}"
        'echo "ticks $(getconf CLK_TCK)"; head -n 1 /proc/stat\n'
        f"echo '==> output <=='\n( {command} )\ncode=$?\n"
        "printf '\\n==> after <==\\n'; head -n 1 /proc/stat\nexit $code\n"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedOutput:
    """The sections that a wrapped tool printed."""

    output: str
    """The tool's own output."""
    version: str | None = None
    pinned: str | None = None
    cpu_seconds: float | None = None
    """CPU time of the whole node while the tool ran."""


def unwrap(text: str) -> WrappedOutput:
    """Split the output of a wrapped tool; text without our sections is the output of the tool."""
    sections = _sections(text)
    if "output" not in sections:
        return WrappedOutput(output=text)
    about = dict(line.partition(" ")[::2] for line in sections.get("about", "").splitlines())
    return WrappedOutput(
        output=sections["output"],
        version=about.get("version"),
        pinned=about.get("pinned"),
        cpu_seconds=_cpu_seconds(about, sections.get("after", "")),
    )


def _sections(text: str) -> dict[str, str]:
    """Return the text by section; a tool may print anything but our own headings."""
    headers = list(SECTION.finditer(text))
    ends = [*(header.start() for header in headers[1:]), len(text)][: len(headers)]
    return {header[1]: text[header.end() : end].strip("\n") for header, end in zip(headers, ends, strict=True)}


def _cpu_seconds(about: dict[str, str], after: str) -> float | None:
    try:
        ticks = integer(about["ticks"])
        before, later = _busy(about["cpu"]), _busy(after.partition(" ")[2])
    except (KeyError, ParseError):
        return None
    return (later - before) / ticks if ticks > 0 and later >= before else None


def _busy(line: str) -> int:
    cells = [integer(cell) for cell in line.split()]
    if len(cells) <= max(BUSY):
        raise ParseError("line of /proc/stat is too short", line=line)
    return sum(cells[column] for column in BUSY)
