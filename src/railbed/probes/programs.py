"""Which of the programs that railbed runs on a machine are missing, and what installs packages there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe

PROGRAMS = (
    *("ethtool", "ping", "ip", "iperf3", "sockperf", "fio"),
    *("tcpdump", "rdma", "dcb", "ibv_devinfo", "ib_write_bw", "ib_write_lat", "lldpctl"),
)
UNAVAILABLE = "/var/lib/railbed/unavailable"
"""Written by the fix of `tools_installed`; it holds until the machine reads its sources again."""
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,99}", re.ASCII)
MANAGERS = ("apt-get", "dnf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs that were looked for."""

    missing: tuple[str, ...]
    manager: str | None = None
    """`apt-get` or `dnf`; None if the machine has neither."""
    unavailable: tuple[str, ...] = ()
    """Packages that `configure` could not install, as no source of the machine had them when it last looked."""


def parse(text: str) -> Programs:
    """Read one word for each program, `name` or `-name` if it is missing; then `manager NAME`, and packages."""
    words = text.split()
    if "manager" not in words:
        raise ParseError("no manager", line=text.strip()[:80])
    end = words.index("manager")
    last = words.index("unavailable", end) if "unavailable" in words[end:] else len(words)
    programs, managers, unavailable = words[:end], words[end + 1 : last], words[last + 1 :]
    for word in programs:
        if word.removeprefix("-") not in PROGRAMS:
            raise ParseError("expected the name of a program", line=word)
    if len(managers) > 1 or not set(managers) <= set(MANAGERS):
        raise ParseError("expected the name of a package manager", line=" ".join(managers))
    if wrong := [name for name in unavailable if not PACKAGE.fullmatch(name)]:
        raise ParseError("expected the name of a package", line=wrong[0])
    return Programs(
        missing=tuple(word[1:] for word in programs if word.startswith("-")),
        manager=managers[0] if managers else None,
        unavailable=tuple(unavailable),
    )


COMMAND = f"""
for program in {" ".join(PROGRAMS)}; do
  if command -v "$program" >/dev/null 2>&1; then echo "$program"; else echo "-$program"; fi
done
echo manager
for manager in {" ".join(MANAGERS)}; do
  if command -v "$manager" >/dev/null 2>&1; then echo "$manager"; break; fi
done
echo unavailable
if [ {UNAVAILABLE} -nt /var/lib/apt/lists ]; then cat {UNAVAILABLE}; fi
exit 0
"""

PROBE = Probe(
    name="programs",
    title="programs that railbed runs, and the package manager",
    command=COMMAND,
    parse=parse,
    facts=Programs,
)
