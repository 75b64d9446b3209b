"""TCAM regions of a Nexus: room for access lists and classification (`show hardware access-list tcam region`).

A qos policy needs a region: at a switched port `ing-l2-qos` on cloud-scale switches and `qos` on older ones, at a
routed port `ing-l3-vlan-qos` or `l3qos`. Only a reload changes the size of a region.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import integer

ROW = re.compile(r"\[(?P<name>[\w-]++)\]\s*+size\s*+=\s*+(?P<size>\d++)")
SWITCHED, ROUTED = ("ing-l2-qos", "qos"), ("ing-l3-vlan-qos", "l3qos")


@dataclass(frozen=True, slots=True, kw_only=True)
class TcamRegions:
    """The sizes of the regions, by name."""

    sizes: dict[str, int]

    def for_qos(self, *, routed: bool) -> tuple[str, int] | None:
        """Return the name and size of the region that a qos policy at a port needs; None if it is not known."""
        names = ROUTED if routed else SWITCHED
        return next(((name, self.sizes[name]) for name in names if name in self.sizes), None)


def parse(text: str) -> TcamRegions:
    """Read the regions that have a name; other lines are not about a region that railbed needs."""
    sizes = {match["name"]: integer(match["size"]) for match in ROW.finditer(text)}
    if not sizes:
        raise ParseError("no TCAM region", line=text.strip()[:80])
    return TcamRegions(sizes=sizes)


PROBE = Probe(
    name="nexus_tcam",
    title="sizes of the TCAM regions of a Nexus",
    command="show hardware access-list tcam region",
    parse=parse,
    facts=TcamRegions,
    runs_on="switch",
)
