"""TCAM regions of a Nexus: room for access lists and classification (`show hardware access-list tcam region`).

A qos policy needs a region: at a switched port `ing-l2-qos` on cloud-scale switches and `qos` on older ones, at a
routed port `ing-l3-vlan-qos` or `l3qos`. Only a reload changes the size of a region.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

ROW = re.compile(r"\[(?P<name>[\w-]++)\]\s*+size\s*+=\s*+(?P<size>\d++)")
WITHOUT_NAME = re.compile(r"\bsize\s*+=\s*+\d")
SWITCHED, ROUTED = ("ing-l2-qos", "qos"), ("ing-l3-vlan-qos", "l3qos")


@dataclass(frozen=True, slots=True, kw_only=True)
class TcamRegions(TextFacts):
    """The sizes of the regions, by name."""

    sizes: dict[str, int]

    def for_qos(self, *, routed: bool) -> tuple[str, int] | None:
        """Return the name and size of the region that a qos policy at a port needs; None if it is not known."""
        names = ROUTED if routed else SWITCHED
        return next(((name, self.sizes[name]) for name in names if name in self.sizes), None)


def parse(text: str) -> TcamRegions:
    """Read the regions that have a name; those of the system have none."""
    lines = Lines(text)
    sizes: dict[str, int] = {}
    for line in lines:
        with lines.reading(line):
            if match := ROW.search(line):
                sizes[match["name"]] = integer(match["size"])
            elif not WITHOUT_NAME.search(line):
                lines.unknown(line)
    lines.require(sizes, "no TCAM region")
    return TcamRegions(sizes=sizes, not_understood=lines.not_understood)


PROBE = Probe(
    name="nexus_tcam",
    title="sizes of the TCAM regions of a Nexus",
    command="show hardware access-list tcam region",
    parse=parse,
    facts=TcamRegions,
    runs_on="switch",
)
