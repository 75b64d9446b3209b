"""Clock synchronisation: the kernel's flag, and chrony's state (`timedatectl`, `chronyc`, `/proc`).

Separate from `clock`, because timedatectl can be slow, which would widen the interval of the time that is compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer, number

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
class ClockSync(TextFacts):
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
    lines = Lines(text)
    parts = {name or _looks_like(part): list(part) for name, part in lines.sections()}
    chrony = _tracking(parts.get("chronyc", []), lines)
    values = _values(parts.get("timedatectl", []), lines)
    flag = _kernel_flag(values)
    lines.require(text.strip(), "nothing was printed")
    lines.require(flag is not None or chrony or "services" in parts, "neither timedatectl nor chronyc")
    return ClockSync(
        synchronised=_chrony_synchronised(chrony) if flag is None else flag,
        services=_services(parts.get("services", []), lines),
        source=chrony[1] or None if chrony else None,
        stratum=integer(chrony[2]) if chrony else None,
        offset_seconds=number(chrony[4]) if chrony else None,
        can_start=_can_start(values),
        not_understood=lines.not_understood,
    )


def _services(body: list[str], lines: Lines) -> tuple[str, ...]:
    names = set[str]()
    for line in body:
        if " " in line.strip():
            lines.unknown(line)
        else:
            names.add(line.strip())
    return tuple(SERVICES.get(name, name) for name in sorted(names))


def _values(body: list[str], lines: Lines) -> dict[str, str]:
    """Return the values of timedatectl: `key=value`, or `key: value` of its status text."""
    values: dict[str, str] = {}
    for line in body:
        key, sign, value = line.partition("=" if "=" in line else ":")
        if not sign:
            lines.unknown(line)
        values.setdefault(key.strip(), value.strip())
    return values


def _can_start(values: dict[str, str]) -> bool | None:
    """Return whether systemd has a service that is off; None if `timedatectl show` does not say so."""
    if "CanNTP" not in values or "NTP" not in values:
        return None
    return values["CanNTP"] == "yes" and values["NTP"] == "no"


def _looks_like(lines: Lines) -> str:
    return "chronyc" if any(line.count(",") == CHRONY_FIELDS - 1 for line in lines.text.splitlines()) else "timedatectl"


def _kernel_flag(values: dict[str, str]) -> bool | None:
    return next((_yes(values[key]) for key in SYNCHRONISED_KEYS if key in values), None)


def _yes(value: str) -> bool:
    if value not in ("yes", "no"):
        raise ParseError("expected yes or no", line=value)
    return value == "yes"


def _tracking(body: list[str], lines: Lines) -> list[str]:
    """Return the fields of `chronyc -c tracking`; empty if chronyd does not run (chronyc prints 506)."""
    tracking: list[str] = []
    for line in body:
        fields = line.strip().split(",")
        if len(fields) == CHRONY_FIELDS:
            tracking = fields
        elif not line.startswith("506 "):
            lines.unknown(line)
    return tracking


def _chrony_synchronised(tracking: list[str]) -> bool | None:
    return tracking[-1] != "Not synchronised" if tracking else None


PROBE = Probe(
    name="clock_sync",
    title="clock synchronisation and its source",
    command=COMMAND,
    parse=parse,
    facts=ClockSync,
)
