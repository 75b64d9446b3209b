"""What reading and setting have in common, whichever tool works on a port."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Protocol

from railbed.probes import mlnx_qos
from railbed.probes.mlnx_qos import Qos
from railbed.rules.site import PortView

WIDTH = 8
"""Priorities, traffic classes and buffers of a port."""


class DcbFacts(Protocol):
    """What the probes of `dcb` have in common."""

    @property
    def interfaces(self) -> Mapping[str, object]:
        """Interfaces that have the object."""

    @property
    def refused(self) -> Mapping[str, str]:
        """The kernel's error message for the others."""


def ofed_qos(port: PortView) -> Qos | None:
    """Return the output of mlnx_qos for the port's interface, if it was read."""
    facts = port.node.try_read(mlnx_qos.PROBE)
    return facts.interfaces.get(port.port.netdev) if facts else None


def dcb_has(port: PortView, facts: DcbFacts | None) -> bool:
    """Whether `dcb` is installed and shows the object for this interface."""
    return facts is not None and port.port.netdev in facts.interfaces


def refusal(netdev: str, refused: Mapping[str, str]) -> str:
    """Return why `dcb` shows nothing for an interface."""
    return f"dcb: {refused[netdev]}" if netdev in refused else f"no interface {netdev}"


def shows(subject: str, netdev: str, key: str, pairs: Mapping[int, object]) -> str:
    """Return the command that fails unless `dcb` shows these values.

    Setting them proves nothing: `dcb` of iproute2 6.1 exits with 0 even if the kernel refuses `ets` or `buffer`.
    """
    pattern = ".*".join(rf"\b{index}:{value}\b" for index, value in sorted(pairs.items()))
    return f"dcb {subject} show dev {quote(netdev)} {key} | grep -q {quote(pattern)}"


def dcb_row(values: Mapping[int, object]) -> str:
    """Return a map as `dcb` reads it: `0:a 1:b`."""
    return " ".join(quote(f"{index}:{value}") for index, value in sorted(values.items()))
