"""IP addresses of every interface (`ip -j addr`)."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import Fields, json_list, records


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of an interface."""

    address: str
    """As Python's `ipaddress` writes it."""
    prefix: int
    scope: str | None = None
    """`global`, `link`, `host`, …"""
    duplicate: bool = False
    """IPv6 found the same address on another machine (`dadfailed`)."""

    @property
    def interface(self) -> IPv4Interface | IPv6Interface:
        """The address with its network."""
        return ip_interface(f"{self.address}/{self.prefix}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses by interface; an interface may have none."""

    interfaces: dict[str, tuple[Address, ...]]

    def find(self, wanted: IPv4Address | IPv6Address) -> dict[str, Address]:
        """Return the interfaces that have an address."""
        return {
            name: address
            for name, addresses in self.interfaces.items()
            for address in addresses
            if ip_address(address.address) == wanted
        }


def parse(text: str) -> Addresses:
    """Read `ip -j addr`."""
    objects = json_list(text)
    if not objects:
        raise ParseError("no interface, not even loopback")
    return Addresses(
        interfaces={
            fields.text("ifname"): tuple(_address(entry) for entry in fields.subs("addr_info") if "local" in entry)
            for fields in records(objects)
        }
    )


def _address(fields: Fields) -> Address:
    local, prefix = fields.text("local"), fields.integer("prefixlen")
    try:
        ip_interface(f"{local}/{prefix}")
        address = str(ip_address(local))
    except ValueError:
        raise ParseError("expected an address", line=f"{local}/{prefix}") from None
    return Address(
        address=address,
        prefix=prefix,
        scope=fields.optional_text("scope"),
        duplicate="dadfailed" in fields and fields.boolean("dadfailed"),
    )


PROBE = Probe(
    name="ip_addr",
    title="IP addresses",
    command="ip -j addr show",
    parse=parse,
    facts=Addresses,
    tool="ip",
    package="iproute2",
    one_line=True,
)
