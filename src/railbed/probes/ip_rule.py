"""Routing policy: which table the kernel asks for which packets (`ip -j rule`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import Fields, json_list, records, sections

EVERYTHING = {"inet": "0.0.0.0/0", "inet6": "::/0"}
CONDITIONS = ("not", "fwmark", "iif", "oif", "tos", "ipproto", "sport", "dport", "uidrange", "tun_id", "l3mdev")
"""What packets of RDMA connections do not have, or what this probe does not decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRule:
    """One rule."""

    priority: int
    """Rules with small numbers come first."""
    source: str
    """Network of the packet's source."""
    destination: str
    table: str | None = None
    """The table to ask; None if the rule does something else, such as `blackhole` or `goto`."""
    conditional: bool = False
    """It has other conditions as well: a mark, an interface, a port."""
    longest_ignored: int | None = None
    """Routes with a prefix up to this length do not count (`suppress_prefixlength`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRules:
    """All rules of a machine, in the order of their priorities."""

    rules: tuple[RoutingRule, ...]

    def applying_to(
        self, source: IPv4Address | IPv6Address, destination: IPv4Address | IPv6Address
    ) -> Iterator[RoutingRule]:
        """Yield the rules that ask a table for packets between two addresses, in their order."""
        for rule in self.rules:
            is_about = source in ip_network(rule.source) and destination in ip_network(rule.destination)
            if is_about and rule.table is not None and not rule.conditional:
                yield rule


def parse(text: str) -> RoutingRules:
    """Read one or two `ip -j rule` lists."""
    if not text.strip():
        raise ParseError("nothing was printed")
    rules = [rule for family, part in sections(text) for rule in _rules(json_list(part), family)]
    if not rules:
        raise ParseError("no rule, not even that of the table main")
    return RoutingRules(rules=tuple(sorted(rules, key=lambda rule: rule.priority)))


def _rules(objects: list[dict[str, object]], family: str) -> Iterator[RoutingRule]:
    ends = [(fields, _network(fields, "src"), _network(fields, "dst")) for fields in records(objects)]
    # In a list saved without our header, only addresses show the family.
    is_6 = family == "inet6" or any(":" in network for _, *networks in ends for network in networks)
    for fields, source, destination in ends:
        yield _rule(fields, source, destination, EVERYTHING["inet6" if is_6 else "inet"])


def _rule(fields: Fields, source: str, destination: str, everything: str) -> RoutingRule:
    return RoutingRule(
        priority=fields.optional_integer("priority") or 0,
        source=source or everything,
        destination=destination or everything,
        table=fields.optional_text("table"),
        conditional=any(key in fields for key in CONDITIONS),
        longest_ignored=fields.optional_integer("suppress_prefixlen"),
    )


def _network(fields: Fields, key: str) -> str:
    """Return a network in its usual spelling; empty for all."""
    address = fields.optional_text(key)
    if address in (None, "all"):
        return ""
    length = fields.optional_integer(f"{key}len")
    try:
        parsed = ip_address(str(address))
        return str(ip_network((parsed, parsed.max_prefixlen if length is None else length), strict=False))
    except ValueError:
        raise ParseError("expected an address", line=f"{address}/{length}") from None


PROBE = Probe(
    name="ip_rule",
    title="routing policy",
    command="echo '==> inet <=='; ip -j -4 rule show; echo '==> inet6 <=='; ip -j -6 rule show 2>/dev/null; true",
    parse=parse,
    facts=RoutingRules,
    tool="ip",
    package="iproute2",
    one_line=True,
)
