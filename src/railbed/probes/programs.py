"""Which of the programs that railbed runs on a machine are missing, and what installs packages there."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe

PROGRAMS = (
    *("ethtool", "ping", "ip", "iperf3", "sockperf", "fio"),
    *("tcpdump", "rdma", "dcb", "ibv_devinfo", "ib_write_bw", "ib_write_lat", "lldpctl"),
)
MANAGERS = ("apt-get", "dnf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs that were looked for."""

    missing: tuple[str, ...]
    manager: str | None = None
    """`apt-get` or `dnf`; None if the machine has neither."""


def parse(text: str) -> Programs:
    """Read one word for each program, `name` or `-name` if it is missing; `manager NAME` comes last."""
    words = text.split()
    if "manager" not in words:
        raise ParseError("no manager", line=text.strip()[:80])
    end = words.index("manager")
    programs, managers = words[:end], words[end + 1 :]
    for word in programs:
        if word.removeprefix("-") not in PROGRAMS:
            raise ParseError("expected the name of a program", line=word)
    if len(managers) > 1 or not set(managers) <= set(MANAGERS):
        raise ParseError("expected the name of a package manager", line=" ".join(managers))
    return Programs(
        missing=tuple(word[1:] for word in programs if word.startswith("-")), manager=managers[0] if managers else None
    )


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
