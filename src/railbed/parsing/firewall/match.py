"""Reads one condition of an nft rule, from its JSON, into our model of a rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from railbed.errors import ParseError
from railbed.parsing.fields import Fields
from railbed.parsing.firewall.rules import PacketRule
from railbed.parsing.firewall.values import networks, port_range

NAMED_SET = "@"
"""Prefix of a set that is defined elsewhere."""
EVERYWHERE = {"ipv4": "0.0.0.0/0", "ipv6": "::/0"}


def with_match(rule: PacketRule, match: Fields) -> PacketRule | None:
    """Return the rule with one more condition, or None if it can no longer match a new connection."""
    left, operator = match.sub("left"), match.optional_text("op")
    right = list(_items(match.get("right")))
    if left is None:
        return replace(rule, unclear=True)
    connection = left.sub("ct")
    if connection and connection.optional_text("key") == "state":
        return rule if ("new" in right) == (operator != "!=") else None
    try:
        narrowed = _narrowed(rule, left, right)
    except (ParseError, TypeError):
        return replace(rule, unclear=True)
    return narrowed if operator in ("==", "in") else replace(rule, unclear=True)


def _narrowed(rule: PacketRule, left: Fields, right: list[object]) -> PacketRule:
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
