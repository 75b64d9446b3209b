"""Which of the programs that railbed runs on a machine are missing, and what installs packages there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

PROGRAMS = (
    *("ethtool", "ping", "ip", "iperf3", "sockperf", "fio"),
    *("tcpdump", "rdma", "dcb", "ibv_devinfo", "ib_write_bw", "ib_write_lat", "lldpctl"),
)
UNAVAILABLE = "/var/lib/railbed/unavailable"
"""Written by the fix of `tools_installed`; it holds until the machine reads its sources again."""
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,99}", re.ASCII)
MANAGERS = ("apt-get", "dnf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs(TextFacts):
    """The programs that were looked for."""

    missing: tuple[str, ...]
    manager: str | None = None
    """`apt-get` or `dnf`; None if the machine has neither."""
    unavailable: tuple[str, ...] = ()
    """Packages that `configure` could not install, as no source of the machine had them when it last looked."""


def parse(text: str) -> Programs:
    """Read one word for each program, `name` or `-name` if it is missing; then `manager NAME`, and packages."""
    lines = Lines(text)
    listed: list[str] = []
    manager: str | None = None
    unavailable: list[str] = []
    part = "programs"
    for line in lines:
        name = line.strip()
        if (part, name) in (("programs", "manager"), ("manager", "unavailable")):
            part = name
        elif part == "programs" and name.removeprefix("-") in PROGRAMS:
            listed.append(name)
        elif part == "manager" and name in MANAGERS:
            manager = manager or name
        elif part == "unavailable" and PACKAGE.fullmatch(name):
            unavailable.append(name)
        else:
            lines.unknown(line)
    lines.require(listed and part != "programs", "no list of programs with a manager")
    return Programs(
        missing=tuple(name[1:] for name in listed if name.startswith("-")),
        manager=manager,
        unavailable=tuple(unavailable),
        not_understood=lines.not_understood,
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
