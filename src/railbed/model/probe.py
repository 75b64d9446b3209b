"""The shape of a probe: one source on one device, as a command and a pure parser."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from railbed.model.cluster import Cluster, DeviceKind
from railbed.model.pairs import Pair, pairs_of

F_co = TypeVar("F_co", covariant=True)
DeviceCommand = Callable[[Cluster, str], str]
"""Builds a command for one device from the cluster file; an empty command means that there is nothing to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTest:
    """How a probe tests other nodes from a node. Few such tests run at a time, and those that time out are repeated."""

    command: Callable[[Cluster, Sequence[Pair], bool], str]
    """Builds the command of a node for some of its pairs; with True, it waits longer and also measures the load."""
    timed_out: Callable[[Any], Collection[str]]
    """Returns the addresses of the peers that did not answer in time, from the facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Generic[F_co]):
    """One source: the command, and how to parse its output. It never runs the command itself."""

    name: str
    title: str
    """What it reads, in a few words, for `railbed parse --list` and the reference."""
    command: str | DeviceCommand | PairTest
    """On a node: POSIX shell, run with LC_ALL=C and the sbin folders on PATH, all of it in one round trip.

    On a switch: one command of its command line per line. The lines are alternatives, the first that the switch
    accepts is parsed: `show … | json` first, then the text form.
    """
    parse: Callable[[str], F_co]
    """Text to facts; raises ParseError on text it does not recognise, and nothing else."""
    facts: type[F_co]
    """The type `parse` returns, so that facts can be read back from JSON."""
    runs_on: DeviceKind = "node"
    """The kind of device it reads."""
    tool: str = ""
    """The program it needs; without it the facts are unknown and the finding says what to install."""
    package: str = ""
    """The Debian package of `tool`."""
    needs_root: bool = False
    """Run as root: directly, or through `sudo -n`."""
    timeout: float = 10.0
    """Seconds after which the command is ended on the device."""
    early: bool = False
    """Read first, before other commands load the device (clocks)."""
    one_line: bool = False
    """The output may be one long line, as JSON is; lines of text have a length limit."""
    twice: bool = False
    """Read again at the end, if wanted, to see which values increase (counters)."""

    def command_for(self, cluster: Cluster, device: str) -> str:
        """Return the command for one device of a cluster."""
        if isinstance(self.command, str):
            return self.command
        if isinstance(self.command, PairTest):
            return self.command.command(cluster, list(pairs_of(cluster, device)), False)
        return self.command(cluster, device)
