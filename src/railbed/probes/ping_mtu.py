"""Whether full-size packets reach the peers on the rail: a small and a full-size `ping` to each, not fragmented."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from shlex import quote
from typing import Literal

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Pair, PairTest, Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.peer_tests import IN_ONE_WRITE, LOAD, MEASURE_LOAD, MachineLoad, in_batches, parse_load
from railbed.parsing.text import integer, number

SMALL_PAYLOAD = 56
HEADERS = {4: 28, 6: 48}
"""Bytes of the IP and ICMP headers, by version."""

REPLY = re.compile(r"^(?:\[[\d.]+\] )?\d+ bytes from .* time[=<]([\d.]{1,12}) ?ms", re.MULTILINE | re.ASCII)
TOO_LONG = re.compile(r"message too long|frag needed|packet too big", re.IGNORECASE)
NEXT_MTU = re.compile(r"mtu ?[=:] ?(\d{1,6})", re.IGNORECASE | re.ASCII)
UNREACHABLE = re.compile(r"unreachable|no route to host|packet filtered|prohibited", re.IGNORECASE)
FORBIDDEN = re.compile(r"operation not permitted", re.IGNORECASE)
NO_REPLY = re.compile(r"\b0 (packets )?received")
REFUSED = re.compile(r"^\S*(ping6?|sh|bash|connect|socket): .*", re.MULTILINE)
ANNOUNCED = re.compile(
    r"^PING .*?\(([0-9A-Fa-f:.]+(?:%[^\s()]+)?)\)+(?: from \S+(?: (\S+))?)?:? (\d{1,6})(?:\((\d{1,6})\)| data bytes)",
    re.ASCII | re.MULTILINE,
)
"""`PING 10.1.0.2 (10.1.0.2) from 10.1.0.1 eth1: 8972(9000) bytes of data.`, and the forms of other versions."""

KNOWN = re.compile(
    r"^(?:PING|PATTERN:|---|From|pipe|BusyBox|Usage:|rtt|round-trip) |bytes from |packets transmitted|"
    r"unreachable|no route|prohibited|packet filtered|too (?:long|big)|frag needed|not permitted|"
    r"^\S*(?:ping6?|sh|bash|connect|socket): |^ping ",
    re.IGNORECASE,
)
Outcome = Literal["reply", "too_long", "no_reply", "unreachable", "not_sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """One attempt to reach a peer."""

    netdev: str
    address: str
    size: int
    """Bytes of the IP packet with its header: the MTU it needs."""
    outcome: Outcome
    """`not_sent` proves nothing about the path: no permission to ping, a ping without `-M`, no such interface."""
    mtu: int | None = None
    """The largest packet for the path, if a device on it reported that."""
    rtt_ms: float | None = None
    message: str = ""
    """The line of ping that determined the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pings(TextFacts):
    """All attempts of one machine."""

    pings: tuple[Ping, ...]
    load: MachineLoad | None = None
    """The load of the machine, if measured: before repeating tests that timed out."""


def command(cluster: Cluster, pairs: Sequence[Pair], patient: bool) -> str:
    """Return two pings to each peer on each rail, small before full-size: the first also resolves the neighbour."""
    calls = [
        f"both {quote(pair.port.netdev)} {quote(str(pair.peer_port.address))} "
        f"{_sizes(pair.peer_port.address, cluster.mtu_of(pair.port.rail))}"
        for pair in pairs
    ]
    if not calls:
        return ""
    times = "-c 3 -i 0.2 -W 2" if patient else "-c 1 -W 1"
    return (
        'probe() { { echo "==> $1 $2 $3 <=="; '
        f'ping -n -M do {times} -s "$4" -I "$1" "$2" 2>&1 | head -n 12; }} {IN_ONE_WRITE}; }}\n'
        'both() { probe "$1" "$2" "$3" "$4"; probe "$1" "$2" "$5" "$6"; }\n'
        f"{MEASURE_LOAD if patient else ''}{in_batches(calls)}"
    )


def timed_out(facts: Pings) -> set[str]:
    """Return the addresses that did not answer in time; no answer to an ARP request is reported as unreachable."""
    return {ping.address for ping in facts.pings if ping.outcome in ("no_reply", "unreachable")}


def small_size(address: IPv4Address | IPv6Address) -> int:
    """Return the size of the packet that only tests whether there is a path."""
    return SMALL_PAYLOAD + HEADERS[address.version]


def _sizes(address: IPv4Address | IPv6Address, mtu: int) -> str:
    return f"{small_size(address)} {SMALL_PAYLOAD} {mtu} {mtu - HEADERS[address.version]}"


def parse(text: str) -> Pings:
    """Read the pings to many peers, or a single saved ping; iputils or busybox."""
    lines = Lines(text)
    parts = list(lines.sections())
    loads = [parse_load(part) for name, part in parts if name == LOAD]
    pings = tuple(_ping(name, part) for name, part in parts if name != LOAD)
    return Pings(pings=pings, load=loads[0] if loads else None, not_understood=lines.not_understood)


def _ping(name: str, lines: Lines) -> Ping:
    text = lines.text
    for line in lines:
        if not KNOWN.search(line):
            lines.unknown(line)
    netdev, address, size = _target(name, text)
    outcome, message = _outcome(text)
    reply, next_mtu = REPLY.search(text), NEXT_MTU.search(message)
    return Ping(
        netdev=netdev,
        address=address,
        size=size,
        outcome=outcome,
        mtu=int(next_mtu.group(1)) or None if outcome == "too_long" and next_mtu else None,
        rtt_ms=number(reply.group(1)) if reply else None,
        message=message,
    )


def _target(name: str, text: str) -> tuple[str, str, int]:
    words = name.split()
    if len(words) == 3:
        return words[0], _address(words[1]), integer(words[2])
    announced = ANNOUNCED.search(text.strip())
    if name or not announced:
        raise ParseError("expected a target as `interface address size`", line=name or text.strip()[:80])
    address, netdev, payload, total = announced.groups()
    size = int(total) if total else int(payload) + HEADERS[6 if ":" in address else 4]
    return (netdev or "").removesuffix(":"), _address(address), size


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ParseError("expected an address", line=text) from None


def _outcome(text: str) -> tuple[Outcome, str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    patterns: tuple[tuple[re.Pattern[str], Outcome], ...] = (
        (REPLY, "reply"),
        (TOO_LONG, "too_long"),
        (UNREACHABLE, "unreachable"),
        (FORBIDDEN, "not_sent"),
        (NO_REPLY, "no_reply"),
        (REFUSED, "not_sent"),
    )
    for pattern, outcome in patterns:
        for line in lines:
            if pattern.search(line):
                return outcome, line
    raise ParseError("unknown output of ping", line=lines[0] if lines else "")


PROBE = Probe(
    name="ping_mtu",
    title="full-size packets to peers on the rail",
    command=PairTest(command=command, timed_out=timed_out),
    parse=parse,
    facts=Pings,
    tool="ping",
    package="iputils-ping",
    timeout=40.0,
)
