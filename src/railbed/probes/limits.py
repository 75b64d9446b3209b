"""Resource limits of our SSH session (`/proc/self/limits`); training started over SSH has the same limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import integer, sections

COMMAND = r"""
printf '==> limits <==\n'; cat /proc/self/limits
printf '\n==> capabilities <==\n'; grep CapEff /proc/self/status
exit 0
"""
LINE = re.compile(r"Max (?P<name>[a-z]++(?: [a-z]++)*+) {2,}+(?P<soft>\S+) ++(?P<hard>\S+)(?: ++\S+)?", re.ASCII)
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
class ProcessLimits:
    """Limits of a login session."""

    locked_memory: Limit
    """In bytes."""
    open_files: Limit | None = None
    processes: Limit | None = None
    may_lock_any: bool | None = None
    """The session may lock memory beyond its limit, as root may."""


def parse(text: str) -> ProcessLimits:
    """Read /proc/self/limits, and the effective capabilities if they follow."""
    parts = dict(sections(text))
    lines = parts.get("limits", parts.get("", "")).strip().splitlines()
    limits = dict(_limit(line) for line in lines if not line.startswith("Limit "))
    if "locked memory" not in limits:
        raise ParseError("no limit of locked memory", line=text.strip()[:80])
    return ProcessLimits(
        locked_memory=limits["locked memory"],
        open_files=limits.get("open files"),
        processes=limits.get("processes"),
        may_lock_any=_may_lock_any(parts.get("capabilities", "")),
    )


def _limit(line: str) -> tuple[str, Limit]:
    match = LINE.fullmatch(line.strip())
    if not match:
        raise ParseError("expected a limit", line=line)
    return match["name"], Limit(soft=_amount(match["soft"]), hard=_amount(match["hard"]))


def _amount(text: str) -> Amount:
    return "unlimited" if text == "unlimited" else integer(text)


def _may_lock_any(text: str) -> bool | None:
    if not text.strip():
        return None
    return bool(integer(text.partition(":")[2], base=16) >> CAP_IPC_LOCK & 1)


PROBE = Probe(
    name="limits",
    title="limits of locked memory, open files, processes",
    command=COMMAND,
    parse=parse,
    facts=ProcessLimits,
)
