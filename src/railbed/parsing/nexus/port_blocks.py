"""The ports of `show interface`, each with its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from railbed.parsing.lines import Lines
from railbed.parsing.nexus.answer import PORT_NAME

HEADER = re.compile(rf"(?P<name>{PORT_NAME.pattern}) is (?P<state>\S.*)")
OF_OTHER_PORT = re.compile(r"(?:Ethernet|port-channel|Vlan|mgmt|loopback|nve|Tunnel|ii)\d[\d/.]*+\b.*", re.IGNORECASE)
"""A line that is not indented and begins with the name of a port begins another port, whatever follows."""
ONCE = ("admin state is", "Hardware:", "RX", "TX")
"""What a port shows once: at the second, the first line of another port was not recognised."""
KNOWN = re.compile(
    r"admin state is|Dedicated Interface|Hardware|Description:|MTU |BW |reliability |Encapsulation |medium is |"
    r"Port mode|\S+-duplex|Beacon |Auto-|Input flow-control|Rate mode|Switchport |EtherType |EEE |admin fec|"
    r"Last (?:link|clear)|\d+ [A-Za-z]|Load-Interval|(?:input|output) rate|[RT]X$|Internet Address|Keepalive|"
    r"ARP type|(?:No )?Members|input:|Belongs to|L[23] (?:in|out|Switched)|[um]cast:|vPC Status|Interface last|"
    r"Tunnel |Active connector|Management transceiver",
    re.IGNORECASE,
)
"""How the lines begin that NX-OS shows for a port; each probe needs few of them."""


def port_blocks(lines: Lines) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name of each port, its state (the rest of its first line), and its lines without indentation."""
    name, state, block = "", "", list[str]()
    shown: set[str] = set()
    for line in lines:
        words = line.strip()
        header = HEADER.fullmatch(words)
        once = next((title for title in ONCE if words.upper().startswith(title.upper())), "")
        if header or OF_OTHER_PORT.fullmatch(line) or once in shown:
            if name:
                yield name, state, block
            name, state = (header["name"], header["state"]) if header else ("", "")
            block, shown = [], set()
        if once:
            shown.add(once)
        block.append(words)
        if not header and not (name and KNOWN.match(words)):
            lines.unknown(line)
    if name:
        yield name, state, block
