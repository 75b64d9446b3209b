"""Port-channels of a Nexus and their members (`show port-channel summary`).

Only the text form is read: without a port-channel it still has its legend, while the JSON form has nothing, which could
also be a command that failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import find_port, port_name

CHANNEL = re.compile(r"\s*+\d++\s++Po(?P<number>\d++)\([A-Za-z]++\)\s++(?P<rest>\S.*+)")
MEMBER = re.compile(r"(?P<port>(?:Eth|Ethernet)\d[\d/]*+)\([A-Za-z]++\)", re.IGNORECASE)
LEGEND = "Flags:"
HEADER = re.compile(r"Group\s+Port-")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortChannels:
    """The members of each port-channel, by full names: `port-channel10` and `Ethernet1/1`."""

    members: dict[str, list[str]]

    def channel_of(self, port: str) -> str | None:
        """Return the port-channel that a port is a member of."""
        return find_port({member: channel for channel, ports in self.members.items() for member in ports}, port)


def parse(text: str) -> PortChannels:
    """Read the table. Members that do not fit on a line continue on the next; other lines are the legend."""
    if LEGEND not in text and not HEADER.search(text):
        raise ParseError("no table of port-channels", line=text.strip()[:80])
    members: dict[str, list[str]] = {}
    channel = ""
    for line in text.splitlines():
        if match := CHANNEL.fullmatch(line):
            channel = f"port-channel{int(match['number'])}"
            members[channel] = list(_members(match["rest"]))
        elif channel and line.startswith(" "):
            members[channel] += _members(line)
        else:
            channel = ""
    return PortChannels(members=members)


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
