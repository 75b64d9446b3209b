"""The operating system: distribution, kernel, architecture, uptime (`/etc/os-release`, `uname`, `/proc/uptime`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import number, sections, shell_words

COMMAND = r"""
printf '==> os-release <==\n'; cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null
printf '\n==> uname <==\n'; uname -srm
if read -r uptime 2>/dev/null </proc/uptime; then printf '\n==> uptime <==\n%s\n' "$uptime"; fi
exit 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OsRelease:
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
    parts = dict(sections(text))
    release = _assignments(parts.get("os-release", parts.get("", "")))
    kernel, architecture = _uname(parts.get("uname", ""))
    if not release and kernel is None:
        raise ParseError("neither os-release nor uname", line=text.strip()[:80])
    return OsRelease(
        distribution=release.get("ID"),
        version=release.get("VERSION_ID"),
        title=release.get("PRETTY_NAME"),
        kernel=kernel,
        architecture=architecture,
        uptime_seconds=_uptime(parts.get("uptime", "")),
    )


def _assignments(text: str) -> dict[str, str]:
    values = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ParseError("os-release: expected KEY=value", line=line)
        values[key.strip()] = " ".join(shell_words(value))
    return values


def _uname(text: str) -> tuple[str | None, str | None]:
    words = text.split()
    if not words:
        return None, None
    if len(words) != 3 or words[0] != "Linux":
        raise ParseError("expected `Linux RELEASE MACHINE` from uname -srm", line=text.strip())
    return words[1], words[2]


def _uptime(text: str) -> float | None:
    words = text.split()
    return number(words[0]) if words else None


PROBE = Probe(
    name="os_release",
    title="distribution, kernel, architecture, uptime",
    command=COMMAND,
    parse=parse,
    facts=OsRelease,
)
