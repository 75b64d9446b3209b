"""Routes of all tables, IPv4 and IPv6 (`ip -j route show table all`)."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import Fields, json_list, records

DEFAULT = {"inet": "0.0.0.0/0", "inet6": "::/0"}
MAIN = "main"
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route."""

    destination: str
    """Network with its prefix; a default route is `0.0.0.0/0` or `::/0`."""
    devices: tuple[str, ...]
    """Interfaces of the next hops: several with multipath, none for `unreachable` and similar routes."""
    gateway: str | None = None
    table: str = MAIN
    metric: int = 0
    source: str | None = None
    type: str = "unicast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes(TextFacts):
    """All routes of a machine."""

    routes: tuple[Route, ...]

    @property
    def tables(self) -> dict[str, RoutingTable]:
        """All tables by name."""
        tables: dict[str, list[tuple[Network, Route]]] = {}
        for route in self.routes:
            tables.setdefault(route.table, []).append((ip_network(route.destination), route))
        return {name: RoutingTable(routes) for name, routes in tables.items()}


class RoutingTable:
    """One routing table."""

    def __init__(self, routes: list[tuple[Network, Route]]) -> None:
        self._routes = sorted(routes, key=lambda entry: (-entry[0].prefixlen, entry[1].metric))

    def towards(self, address: IPv4Address | IPv6Address) -> Route | None:
        """Return the route that the kernel takes: the longest prefix, then the least metric."""
        return next((route for network, route in self._routes if address in network), None)


def parse(text: str) -> Routes:
    """Read one or two `ip -j route` lists."""
    if not text.strip():
        raise ParseError("nothing was printed")
    lines = Lines(text)
    parts = [(family, records(json_list(part.text))) for family, part in lines.sections()]
    routes = tuple(_route(fields, family) for family, listed in parts for fields in listed)
    return Routes(routes=routes, not_understood=lines.not_understood)


def _route(fields: Fields, family: str) -> Route:
    hops = [fields, *fields.subs("nexthops")]
    devices = [hop.optional_text("dev") for hop in hops]
    other_family = fields.sub("via")
    gateway = fields.optional_text("gateway") or (other_family.optional_text("host") if other_family else None)
    return Route(
        destination=_destination(fields, family),
        devices=tuple(dict.fromkeys(device for device in devices if device)),
        gateway=gateway,
        table=fields.optional_text("table") or MAIN,
        metric=fields.optional_integer("metric") or 0,
        source=fields.optional_text("prefsrc"),
        type=fields.optional_text("type") or "unicast",
    )


def _destination(fields: Fields, family: str) -> str:
    destination = fields.text("dst")
    if destination == "default":
        # Only IPv6 routes have `pref`; in a list saved without our header, it or the gateway shows the family.
        is_6 = family == "inet6" or "pref" in fields or ":" in (fields.optional_text("gateway") or "")
        return DEFAULT["inet6" if is_6 else "inet"]
    try:
        return str(ip_network(destination))
    except ValueError:
        raise ParseError("expected a destination", line=destination) from None


PROBE = Probe(
    name="ip_route",
    title="routes",
    command=(
        "echo '==> inet <=='; ip -j -4 route show table all; "
        "echo '==> inet6 <=='; ip -j -6 route show table all 2>/dev/null; true"
    ),
    parse=parse,
    facts=Routes,
    tool="ip",
    package="iproute2",
    one_line=True,
)
