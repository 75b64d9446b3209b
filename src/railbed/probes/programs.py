"""Which of the programs that railbed runs on a machine are missing, and what installs packages there."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

PROGRAMS = (
    *("ethtool", "ping", "ip", "iperf3", "sockperf", "fio"),
    *("tcpdump", "rdma", "dcb", "ibv_devinfo", "ib_write_bw", "ib_write_lat", "lldpctl"),
)
MANAGERS = ("apt-get", "dnf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs(TextFacts):
    """The programs that were looked for."""

    missing: tuple[str, ...]
    manager: str | None = None
    """`apt-get` or `dnf`; None if the machine has neither."""


def parse(text: str) -> Programs:
    """Read one word for each program, `name` or `-name` if it is missing; `manager NAME` comes last."""
    lines = Lines(text)
    missing: list[str] = []
    manager: str | None = None
    listed, has_end = 0, False
    for line in lines:
        name = line.strip()
        if name == "manager":
            has_end = True
        elif has_end and name in MANAGERS:
            manager = manager or name
        elif not has_end and name.removeprefix("-") in PROGRAMS:
            listed += 1
            missing += [name[1:]] if name.startswith("-") else []
        else:
            lines.unknown(line)
    lines.require(has_end and listed, "no list of programs with a manager")
    return Programs(missing=tuple(missing), manager=manager, not_understood=lines.not_understood)


COMMAND = f"""
for program in {" ".join(PROGRAMS)}; do
  if command -v "$program" >/dev/null 2>&1; then echo "$program"; else echo "-$program"; fi
done
echo manager
for manager in {" ".join(MANAGERS)}; do
  if command -v "$manager" >/dev/null 2>&1; then echo "$manager"; break; fi
done
exit 0
"""

PROBE = Probe(
    name="programs",
    title="programs that railbed runs, and the package manager",
    command=COMMAND,
    parse=parse,
    facts=Programs,
)
