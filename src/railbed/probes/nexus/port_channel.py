"""Port-channels of a Nexus and their members (`show port-channel summary`).

Only the text form is read: without a port-channel it still has its legend, while the JSON form has nothing, which could
also be a command that failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import find_port, port_name
from railbed.parsing.text import integer

CHANNEL = re.compile(r"\s*+\d++\s++Po(?P<number>\d++)\([A-Za-z]++\)\s++(?P<rest>\S.*+)")
MEMBER = re.compile(r"(?P<port>(?:Eth|Ethernet)\d[\d/]*+)\([A-Za-z]++\)", re.IGNORECASE)
HEADING = re.compile(r"Flags:.*|Group\s++Port-.*|Channel")
OF_LEGEND = re.compile(r"[A-Za-z] - \S.*")
OTHER_CHANNEL = re.compile(r"\s*+\d.*")
"""A line that begins with a number may be a port-channel: what follows it does not belong to the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortChannels(TextFacts):
    """The members of each port-channel, by full names: `port-channel10` and `Ethernet1/1`."""

    members: dict[str, list[str]]

    def channel_of(self, port: str) -> str | None:
        """Return the port-channel that a port is a member of."""
        return find_port({member: channel for channel, ports in self.members.items() for member in ports}, port)


def parse(text: str) -> PortChannels:
    """Read the table. Members that do not fit on a line continue on the next."""
    lines, is_table, channel = Lines(text), False, ""
    members: dict[str, list[str]] = {}
    for line in lines:
        if HEADING.fullmatch(line.strip()):
            is_table = True
        elif match := CHANNEL.fullmatch(line):
            channel = ""
            with lines.reading(line):
                channel = f"port-channel{integer(match['number'])}"
                members[channel] = list(_members(match["rest"]))
        elif channel and line.startswith(" ") and (more := list(_members(line))):
            members[channel] += more
        elif not OF_LEGEND.fullmatch(line.strip()):
            channel = "" if OTHER_CHANNEL.fullmatch(line) else channel
            lines.unknown(line)
    lines.require(is_table or members, "no table of port-channels")
    return PortChannels(members=members, not_understood=lines.not_understood)


def _members(text: str) -> Iterator[str]:
    for match in MEMBER.finditer(text):
        yield port_name(match["port"])


PROBE = Probe(
    name="nexus_port_channel",
    title="port-channels of a Nexus and their members",
    command="show port-channel summary",
    parse=parse,
    facts=PortChannels,
    runs_on="switch",
)
