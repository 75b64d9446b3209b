"""Network interfaces: state, MTU, master, drops (`ip -j -s -s -d link`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import Fields, json_list, records


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One network interface."""

    name: str
    mtu: int
    state: str
    """`UP`, `DOWN`, `UNKNOWN` (loopback and some virtual ones), …"""
    flags: tuple[str, ...]
    address: str | None = None
    kind: str | None = None
    """Kind of a virtual link: bond, vlan, bridge, veth, …"""
    master: str | None = None
    """Bond, team or bridge it belongs to."""
    parent: str | None = None
    """Interface below a vlan."""
    rx_errors: int | None = None
    rx_dropped: int | None = None
    tx_errors: int | None = None
    tx_dropped: int | None = None
    carrier_changes: int | None = None
    """How often the link went up or down; only the second `-s` shows it."""

    @property
    def has_carrier(self) -> bool:
        """A cable with a partner at the other end."""
        return "LOWER_UP" in self.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """All network interfaces of a machine, by name."""

    links: dict[str, Link]


def parse(text: str) -> Links:
    """Read `ip -j link`, with or without statistics and details."""
    objects = json_list(text)
    if not objects:
        raise ParseError("no interface, not even loopback")
    return Links(links={link.name: link for link in map(_link, records(objects))})


def _link(fields: Fields) -> Link:
    stats = fields.sub("stats64") or fields.sub("stats")
    rx, tx = (stats.sub("rx"), stats.sub("tx")) if stats else (None, None)
    info = fields.sub("linkinfo")
    return Link(
        name=fields.text("ifname"),
        mtu=fields.integer("mtu"),
        state=fields.text("operstate"),
        flags=tuple(fields.texts("flags")),
        address=fields.optional_text("address"),
        kind=info.optional_text("info_kind") if info else None,
        master=fields.optional_text("master"),
        parent=fields.optional_text("link"),
        rx_errors=rx.optional_integer("errors") if rx else None,
        rx_dropped=rx.optional_integer("dropped") if rx else None,
        tx_errors=tx.optional_integer("errors") if tx else None,
        tx_dropped=tx.optional_integer("dropped") if tx else None,
        carrier_changes=tx.optional_integer("carrier_changes") if tx else None,
    )


PROBE = Probe(
    name="ip_link",
    title="network interfaces: state, MTU, bond, drops",
    command="ip -j -s -s -d link show",
    parse=parse,
    facts=Links,
    tool="ip",
    package="iproute2",
    twice=True,
    one_line=True,
)
