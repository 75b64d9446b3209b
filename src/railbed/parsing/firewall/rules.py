"""One model of packet filter rules, regardless of the tool that set them, and what they do to a packet.

Ports and networks are written as packet filters write them. A condition of an nft rule comes as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Literal

from railbed.errors import ParseError
from railbed.parsing.text import Fields, integer

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
        ends = self._base_ends().values()
        if {"drop"} in ends:
            return "drop"
        return "accept" if all(end == {"accept"} for end in ends) else None

    def blocking(self) -> list[str]:
        """Return the base chains that drop the packet, or may drop it."""
        return [name for name, ends in self._base_ends().items() if ends != {"accept"}]

    def _base_ends(self) -> dict[str, set[str]]:
        """Return how each base chain for the packet's family may end."""
        return {
            name: {chain.policy if end == "return" else end for end in self._ends(name)}
            for name, chain in self.chains.items()
            if chain.policy and FAMILIES.get(chain.family, self.packet.source.version) == self.packet.source.version
        }

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


def port_range(text: str) -> tuple[int, int]:
    """Read `22` or `8000:9000`."""
    low, _, high = text.partition(":")
    return integer(low), integer(high or low)


def networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Return networks as Python's `ipaddress` writes them."""
    result = []
    for text in texts:
        try:
            result.append(str(ip_network(text, strict=False)))
        except ValueError:
            raise ParseError("expected a network", line=text) from None
    return tuple(result)


NAMED_SET = "@"
"""Prefix of a set that is defined elsewhere."""
EVERYWHERE = {"ipv4": "0.0.0.0/0", "ipv6": "::/0"}


def with_match(rule: PacketRule, match: Fields) -> PacketRule | None:
    """Return the rule with one more condition, or None if it can no longer match a new connection."""
    left, operator = match.sub("left"), match.optional_text("op")
    right = list(_items(match.get("right")))
    if left is None:
        return replace(rule, unclear=True)
    connection, lookup = left.sub("ct"), left.sub("fib")
    if connection and connection.optional_text("key") == "state":
        return rule if ("new" in right) == (operator != "!=") else None
    if connection and connection.optional_text("key") == "status" and right == ["dnat"] and operator != "!=":
        # Packets to the machine's own address are not translated.
        return None
    if lookup and lookup.optional_text("result") == "type" and "daddr" in _items(lookup.get("flags")):
        return rule if ("local" in right) == (operator != "!=") else None
    try:
        narrowed = _narrow(rule, left, right)
    except (ParseError, TypeError):
        return replace(rule, unclear=True)
    return narrowed if operator in ("==", "in") else replace(rule, unclear=True)


def _narrow(rule: PacketRule, left: Fields, right: list[object]) -> PacketRule:
    if any(isinstance(item, str) and item.startswith(NAMED_SET) for item in right):
        return replace(rule, unclear=True)
    payload, meta = left.sub("payload"), left.sub("meta")
    if payload and "protocol" in payload:
        return _by_header(rule, payload.text("protocol"), payload.text("field"), right)
    match meta.optional_text("key") if meta else None:
        case "iif" | "iifname":
            return replace(rule, netdevs=tuple(map(str, right)))
        case "nfproto" if rule.sources is None and set(right) <= EVERYWHERE.keys():
            return replace(rule, sources=tuple(EVERYWHERE[str(family)] for family in right))
        case "l4proto":
            return _by_protocol(rule, tuple(map(str, right)))
        case _:
            return replace(rule, unclear=True)


def _by_header(rule: PacketRule, protocol: str, field: str, right: list[object]) -> PacketRule:
    match protocol, field:
        case (("tcp" | "udp" | "th"), "dport"):
            with_ports = replace(rule, ports=tuple(map(_ports, right)))
            return with_ports if protocol == "th" else _by_protocol(with_ports, (protocol,))
        case (("ip" | "ip6"), "saddr"):
            return replace(rule, sources=networks(map(_network, right)))
        case ("ip", "protocol") | ("ip6", "nexthdr"):
            return _by_protocol(rule, tuple(map(str, right)))
        case (("ip" | "ip6"), _):
            return replace(rule, unclear=True)
        case _:
            return replace(_by_protocol(rule, (protocol,)), unclear=True)


def _by_protocol(rule: PacketRule, protocols: tuple[str, ...]) -> PacketRule:
    both = protocols if rule.protocols is None else tuple(name for name in protocols if name in rule.protocols)
    return replace(rule, protocols=both)


def _items(value: object) -> Iterator[object]:
    """Yield the values on the right side: one, a list, a set, or flags."""
    if isinstance(value, dict) and isinstance(items := value.get("set", value.get("|")), list):
        yield from items
    elif isinstance(value, list):
        yield from value
    else:
        yield value


def _ports(value: object) -> tuple[int, int]:
    if isinstance(value, dict) and isinstance(value.get("range"), list) and len(value["range"]) == 2:
        low, high = value["range"]
        return port_range(str(low))[0], port_range(str(high))[0]
    return port_range(str(value))


def _network(value: object) -> str:
    prefix = Fields(value).sub("prefix") if isinstance(value, dict) else None
    if prefix:
        return f"{prefix.text('addr')}/{prefix.integer('len')}"
    return str(value)
