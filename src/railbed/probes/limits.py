"""Resource limits of our SSH session (`/proc/self/limits`); training started over SSH has the same limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

COMMAND = r"""
printf '==> limits <==\n'; cat /proc/self/limits
printf '\n==> capabilities <==\n'; grep CapEff /proc/self/status
exit 0
"""
LINE = re.compile(r"Max (?P<name>[a-z]++(?: [a-z]++)*+) {2,}+(?P<soft>\S+) ++(?P<hard>\S+)(?: ++\S+)?", re.ASCII)
CAPABILITIES = re.compile(r"CapEff:\s*(?P<set>[0-9a-f]{1,32})")
CAP_IPC_LOCK = 14
"""Number of the capability (linux/capability.h) that exempts a process from the limit of locked memory."""
RDMA_LEAST_BYTES = 64 * 2**20
"""With less locked memory than this, not even RDMA queues can be created."""
Amount = int | Literal["unlimited"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit: the current value, and how far the account may raise it."""

    soft: Amount
    hard: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits(TextFacts):
    """Limits of a login session."""

    locked_memory: Limit
    """In bytes."""
    open_files: Limit | None = None
    processes: Limit | None = None
    may_lock_any: bool | None = None
    """The session may lock memory beyond its limit, as root may."""


def parse(text: str) -> ProcessLimits:
    """Read /proc/self/limits, and the effective capabilities if they follow."""
    lines = Lines(text)
    parts = dict(lines.sections())
    limits: dict[str, Limit] = {}
    for line in parts.get("limits") or parts.get("") or ():
        match = LINE.fullmatch(line.strip())
        with lines.reading(line):
            if match:
                limits[match["name"]] = Limit(soft=_amount(match["soft"]), hard=_amount(match["hard"]))
            elif not line.startswith("Limit "):
                lines.unknown(line)
    if "locked memory" not in limits:
        lines.refuse("no limit of locked memory")
    return ProcessLimits(
        locked_memory=limits["locked memory"],
        open_files=limits.get("open files"),
        processes=limits.get("processes"),
        may_lock_any=_may_lock_any(parts.get("capabilities")),
        not_understood=lines.not_understood,
    )


def _amount(text: str) -> Amount:
    return "unlimited" if text == "unlimited" else integer(text)


def _may_lock_any(lines: Lines | None) -> bool | None:
    match = lines.first(CAPABILITIES) if lines else None
    return bool(integer(match["set"], base=16) >> CAP_IPC_LOCK & 1) if match else None


PROBE = Probe(
    name="limits",
    title="limits of locked memory, open files, processes",
    command=COMMAND,
    parse=parse,
    facts=ProcessLimits,
)
