"""The operating system: distribution, kernel, architecture, uptime (`/etc/os-release`, `uname`, `/proc/uptime`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import number, shell_words

COMMAND = r"""
printf '==> os-release <==\n'; cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null
printf '\n==> uname <==\n'; uname -srm
if read -r uptime 2>/dev/null </proc/uptime; then printf '\n==> uptime <==\n%s\n' "$uptime"; fi
exit 0
"""


UNAME = re.compile(r"Linux (?P<release>\S+) (?P<machine>\S+)")
UPTIME = re.compile(r"(?P<seconds>\d{1,12}(?:\.\d{1,9})?)(?: [\d.]+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class OsRelease(TextFacts):
    """The operating system of a machine, and its uptime."""

    distribution: str | None = None
    """`ID` of os-release: debian, ubuntu, rocky, …"""
    version: str | None = None
    """`VERSION_ID` of os-release; rolling distributions have none."""
    title: str | None = None
    """`PRETTY_NAME` of os-release."""
    kernel: str | None = None
    """Kernel release, as `uname -r` prints it."""
    architecture: str | None = None
    uptime_seconds: float | None = None


def parse(text: str) -> OsRelease:
    """Read the three sections; text without sections is a saved os-release file."""
    lines = Lines(text)
    parts = dict(lines.sections())
    release = _assignments(parts.get("os-release") or parts.get(""))
    uname, uptime = _first(parts.get("uname"), UNAME), _first(parts.get("uptime"), UPTIME)
    lines.require(release or uname, "neither os-release nor uname")
    return OsRelease(
        distribution=release.get("ID"),
        version=release.get("VERSION_ID"),
        title=release.get("PRETTY_NAME"),
        kernel=uname["release"] if uname else None,
        architecture=uname["machine"] if uname else None,
        uptime_seconds=number(uptime["seconds"]) if uptime else None,
        not_understood=lines.not_understood,
    )


def _assignments(lines: Lines | None) -> dict[str, str]:
    values = {}
    for line in lines or ():
        key, equals, value = line.partition("=")
        if line.lstrip().startswith("#") or lines is None:
            continue
        with lines.reading(line):
            if equals and key.strip().isidentifier():
                values[key.strip()] = " ".join(shell_words(value))
            else:
                lines.unknown(line)
    return values


def _first(lines: Lines | None, form: re.Pattern[str]) -> re.Match[str] | None:
    return lines.first(form) if lines else None


PROBE = Probe(
    name="os_release",
    title="distribution, kernel, architecture, uptime",
    command=COMMAND,
    parse=parse,
    facts=OsRelease,
)
