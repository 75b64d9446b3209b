"""The shape of a probe: one source on one device, as a command and a pure parser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from railbed.model.cluster import Cluster

F_co = TypeVar("F_co", covariant=True)
NodeCommand = Callable[[Cluster, str], str]
"""Builds a command for one node from the cluster file; an empty command means nothing to ask there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Generic[F_co]):
    """One source: what to type, and how to understand the answer. It never does the typing itself."""

    name: str
    title: str
    """What it reads, in a few words, for `railbed parse --list` and the reference."""
    command: str | NodeCommand
    """POSIX shell, run with LC_ALL=C and the sbin folders on PATH. One round trip, whatever it reads."""
    parse: Callable[[str], F_co]
    """Text to facts; raises ParseError on text it does not know, and nothing else."""
    facts: type[F_co]
    """The type `parse` returns, so that facts can be read back from JSON."""
    tool: str = ""
    """The program it needs; where that is missing the facts are unknown and the finding says what to install."""
    package: str = ""
    """The Debian package of `tool`."""
    needs_root: bool = False
    """Run as root: directly, or through `sudo -n`."""
    timeout: float = 10.0
    """Seconds after which the command is ended on the device."""
    early: bool = False
    """Asked first, before anything else keeps the device busy (clocks)."""
    twice: bool = False
    """Read again at the end, to see what moves (counters)."""

    def command_for(self, cluster: Cluster, node: str) -> str:
        """Return the command for one node of a cluster."""
        return self.command if isinstance(self.command, str) else self.command(cluster, node)
