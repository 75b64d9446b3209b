"""Counters of RDMA ports: `counters` and `hw_counters` (/sys/class/infiniband)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import Files, ports_of, rdma_devices
from railbed.parsing.text import integer

NOT_A_COUNTER = "lifespan"
"""How long the driver caches the values of hw_counters, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortCounters:
    """Counters of one port; those that the card does not have are absent."""

    counters: dict[str, int]
    """Of the port. `port_rcv_data` and `port_xmit_data` count words of 4 bytes."""
    hw_counters: dict[str, int]
    """Of the driver. On mlx5 they have 32 bits and wrap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaCounters(TextFacts):
    """Counters of all RDMA ports of a machine, by `device/port`."""

    ports: dict[str, PortCounters]


def parse(text: str) -> RdmaCounters:
    """Read `path:value` lines of any part of the tree; other files are ignored."""
    lines = Lines(text)
    return RdmaCounters(
        ports={
            f"{device}/{port}": PortCounters(
                counters=_below("counters", below), hw_counters=_below("hw_counters", below)
            )
            for device, files in rdma_devices(lines).items()
            for port, below in ports_of(files).items()
        },
        not_understood=lines.not_understood,
    )


def _below(folder: str, files: Files) -> dict[str, int]:
    counters = {}
    for path, value in files.items():
        below, _, name = path.rpartition("/")
        # Some drivers print `N/A (no PMA)` for counters they do not support.
        if below == folder and name != NOT_A_COUNTER and value and not value.startswith("N/A"):
            counters[name] = integer(value)
    return counters


COMMAND = """
cd /sys/class/infiniband 2>/dev/null || exit 0
grep -sH '' */ports/*/counters/* */ports/*/hw_counters/*
exit 0
"""

PROBE = Probe(
    name="infiniband_counters",
    title="counters of RDMA ports",
    command=COMMAND,
    parse=parse,
    facts=RdmaCounters,
    twice=True,
)
