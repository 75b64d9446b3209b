"""Clock synchronisation: the kernel's flag, and chrony's state (`timedatectl`, `chronyc`, `/proc`).

Separate from `clock`, because timedatectl can be slow, which would widen the interval of the time that is compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import integer, number, sections

COMMAND = r"""
printf '==> services <==\n'
grep -hsxE 'chronyd|ntpd|ntpsec|openntpd|systemd-timesyn|ptp4l|phc2sys|timemaster' /proc/[0-9]*/comm
if [ -d /run/systemd/system ] && command -v timedatectl >/dev/null 2>&1; then
  printf '==> timedatectl <==\n'; timedatectl show 2>/dev/null || timedatectl status 2>/dev/null
fi
if command -v chronyc >/dev/null 2>&1; then
  printf '==> chronyc <==\n'; chronyc -c tracking 2>/dev/null
fi
exit 0
"""
SYNCHRONISED_KEYS = ("NTPSynchronized", "System clock synchronized", "NTP synchronized")
"""The key in `timedatectl show`, in its status text, and in its status text before systemd 235."""
CHRONY_FIELDS = 14
SERVICES = {"systemd-timesyn": "systemd-timesyncd"}
"""The kernel truncates process names to 15 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSync:
    """Whether a clock is synchronised, and by which service."""

    synchronised: bool | None = None
    services: tuple[str, ...] = ()
    """Running daemons that set the clock."""
    source: str | None = None
    """The server that chrony synchronises to."""
    stratum: int | None = None
    offset_seconds: float | None = None
    """Chrony's estimate of the clock's error."""
    can_start: bool | None = None
    """A time service is installed that `timedatectl set-ntp true` starts, and it is off."""


def parse(text: str) -> ClockSync:
    """Read the sections; text without sections is the output of `timedatectl` or `chronyc -c tracking`."""
    parts = {name or _looks_like(part): part for name, part in sections(text)}
    if not text.strip():
        raise ParseError("nothing was printed")
    chrony = _tracking(parts.get("chronyc", ""))
    flag = _kernel_flag(parts.get("timedatectl", ""))
    return ClockSync(
        synchronised=_chrony_synchronised(chrony) if flag is None else flag,
        services=tuple(SERVICES.get(name, name) for name in sorted(set(parts.get("services", "").split()))),
        source=chrony[1] or None if chrony else None,
        stratum=integer(chrony[2]) if chrony else None,
        offset_seconds=number(chrony[4]) if chrony else None,
        can_start=_can_start(parts.get("timedatectl", "")),
    )


def _can_start(text: str) -> bool | None:
    """Return whether systemd has a service that is off; None if `timedatectl show` does not say so."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if "CanNTP" not in values or "NTP" not in values:
        return None
    return values["CanNTP"] == "yes" and values["NTP"] == "no"


def _looks_like(text: str) -> str:
    return "chronyc" if text.count(",") == CHRONY_FIELDS - 1 else "timedatectl"


def _kernel_flag(text: str) -> bool | None:
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        separator = "=" if "=" in line else ":"
        key, sign, value = line.partition(separator)
        if not sign:
            raise ParseError("timedatectl: expected a key and a value", line=line)
        if key.strip() in SYNCHRONISED_KEYS:
            return _yes(value.strip())
    if lines:
        raise ParseError("timedatectl does not show whether the clock is synchronised", line=lines[0])
    return None


def _yes(value: str) -> bool:
    if value not in ("yes", "no"):
        raise ParseError("expected yes or no", line=value)
    return value == "yes"


def _tracking(text: str) -> list[str]:
    """Return the fields of `chronyc -c tracking`; empty if chronyd does not run (chronyc prints 506)."""
    line = text.strip()
    if not line or line.startswith("506 "):
        return []
    fields = line.split(",")
    if len(fields) != CHRONY_FIELDS:
        raise ParseError(f"chronyc: expected {CHRONY_FIELDS} fields", line=line)
    return fields


def _chrony_synchronised(tracking: list[str]) -> bool | None:
    return tracking[-1] != "Not synchronised" if tracking else None


PROBE = Probe(
    name="clock_sync",
    title="clock synchronisation and its source",
    command=COMMAND,
    parse=parse,
    facts=ClockSync,
)
