"""One model of packet filter rules, regardless of the tool that set them, and what they do to a packet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Literal

Action = Literal["accept", "drop", "return", "jump", "goto", "nothing"]
Verdict = Literal["accept", "drop"]
FAMILIES = {"ip": 4, "ip6": 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """The first packet of a connection from a peer."""

    protocol: Literal["tcp", "udp"]
    port: int
    netdev: str
    source: IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketRule:
    """One rule; a condition that is None matches everything."""

    action: Action
    """`drop` includes reject; `nothing` means logging and counting."""
    target: str | None = None
    """The chain to continue with."""
    protocols: tuple[str, ...] | None = None
    ports: tuple[tuple[int, int], ...] | None = None
    """Ranges of destination ports."""
    netdevs: tuple[str, ...] | None = None
    """Names or patterns of interfaces."""
    sources: tuple[str, ...] | None = None
    """Networks."""
    unclear: bool = False
    """It has a condition that is not supported here."""

    def matches(self, packet: Packet) -> bool | None:
        """Whether the rule matches a packet; None if that cannot be determined."""
        fits = (
            (self.protocols is None or packet.protocol in self.protocols)
            and (self.ports is None or any(low <= packet.port <= high for low, high in self.ports))
            and (self.netdevs is None or any(fnmatchcase(packet.netdev, name) for name in self.netdevs))
            and (self.sources is None or any(packet.source in ip_network(network) for network in self.sources))
        )
        return (None if self.unclear else True) if fits else False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One chain of rules."""

    family: str
    """`ip`, `ip6`, or `inet` for both."""
    rules: tuple[PacketRule, ...]
    policy: Verdict | None = None
    """What happens to a packet at the end of a base chain; None for a chain that is only jumped to."""


@dataclass(slots=True)
class Walk:
    """One packet in the chains. Unclear rules may match or not: both cases are followed."""

    chains: Mapping[str, Chain]
    packet: Packet
    known_ends: dict[str, frozenset[str]] = field(default_factory=dict)

    def verdict(self) -> Verdict | None:
        """Return what happens to the packet; None if that cannot be determined. It must pass every base chain."""
        ends = [
            {chain.policy if end == "return" else end for end in self._ends(name)}
            for name, chain in self.chains.items()
            if chain.policy and FAMILIES.get(chain.family, self.packet.source.version) == self.packet.source.version
        ]
        if {"drop"} in ends:
            return "drop"
        return "accept" if all(end == {"accept"} for end in ends) else None

    def _ends(self, name: str) -> frozenset[str]:
        """Return how a chain may end for the packet: accept, drop, return."""
        if name not in self.known_ends:
            self.known_ends[name] = frozenset(
                {"accept", "drop"}
            )  # visiting a chain twice would be a loop, which the kernel does not allow
            self.known_ends[name] = self._follow(self.chains[name]) if name in self.chains else self.known_ends[name]
        return self.known_ends[name]

    def _follow(self, chain: Chain) -> frozenset[str]:
        ends: set[str] = set()
        for rule in chain.rules:
            match = rule.matches(self.packet)
            if match is False or rule.action == "nothing":
                continue
            after = self._ends(rule.target or "") if rule.action in ("jump", "goto") else frozenset({rule.action})
            continues = rule.action == "jump" and "return" in after
            ends |= after - {"return"} if rule.action == "jump" else after
            if match and not continues:
                return frozenset(ends)
        return frozenset(ends | {"return"})
