"""The values in the cluster file: names, addresses, networks and numbers, each with the form that it must have."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_interface, ip_network
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints


def _address(value: object) -> object:
    """Read an address from text only: Python would also accept a number."""
    if isinstance(value, IPv4Address | IPv6Address):
        return value
    text = value if isinstance(value, str) else ""
    try:
        address = ip_interface(text).ip if "/" in text else ip_address(text)
    except ValueError:
        raise ValueError("expected an IP address such as 10.1.0.1") from None
    if "%" in text:
        raise ValueError("expected an address without an interface (%)")
    if address.is_unspecified:
        raise ValueError(f"{address} is not the address of a port")
    if "/" in text:
        raise ValueError(f"expected an address without a prefix; did you mean {address}?")
    return address


def _subnet(value: object) -> object:
    """Read a network from text only, and only with its prefix."""
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    wanted = "expected a network with its prefix, such as 10.1.0.0/24"
    if not isinstance(value, str) or "/" not in value:
        raise ValueError(wanted)
    try:
        network = ip_network(value, strict=False)
    except ValueError:
        raise ValueError(wanted) from None
    if ip_interface(value).ip != network.network_address:
        raise ValueError(f"{value} has host bits set; did you mean {network}?")
    return network


Name = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64),
    Field(json_schema_extra={"x-form": "a name of letters, digits, _ . and -, at most 64"}),
]


NETDEV_BYTES = 15
"""The kernel's limit for the name of an interface."""


def _netdev(name: str) -> str:
    """Refuse what the pattern cannot express: names that the kernel does not accept."""
    if len(name.encode("utf-8", "replace")) > NETDEV_BYTES or name in (".", ".."):
        raise ValueError(f"expected the name of a network interface, at most {NETDEV_BYTES} bytes")
    return name


Netdev = Annotated[
    str,
    StringConstraints(pattern=r"^[^\s/:\x00-\x1f\x7f-][^\s/:\x00-\x1f\x7f]{0,14}$"),
    AfterValidator(_netdev),
    Field(json_schema_extra={"x-form": "the name of a network interface, at most 15 characters"}),
]
"""The kernel also accepts a leading `-`, but tools take such a name for an option."""


SwitchPortName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 /:._-]*$", max_length=64),
    Field(json_schema_extra={"x-form": "the name of a switch's port such as Ethernet1/1"}),
]
"""It is part of commands on the switch, which would take `;`, `|` and `>` for operators."""


RdmaDevice = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64),
    Field(json_schema_extra={"x-form": "the name of an RDMA device such as mlx5_0"}),
]


Host = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_.:][A-Za-z0-9_.:%-]*$", max_length=253),
    Field(json_schema_extra={"x-form": "an address or host name"}),
]


Text = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$"),
    Field(json_schema_extra={"x-form": "text in one line"}),
]


def _is_program(word: str) -> bool:
    """Whether a word names the same program in whichever folder railbed or the login happens to be."""
    return not word.startswith("-") and ("/" not in word or bool(re.match(r"(~[A-Za-z0-9._-]*)?/", word)))


def _program(word: str) -> str:
    if _is_program(word):
        return word
    raise ValueError("expected an absolute path, or the name of a command")


def _launcher(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or _is_program(words[0]):
        return words
    raise ValueError("expected its first word to be an absolute path, or the name of a command")


Program = Annotated[Text, AfterValidator(_program)]


Fingerprint = Annotated[
    str,
    StringConstraints(pattern=r"^([0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}$"),
    Field(json_schema_extra={"x-form": "a SHA-256 fingerprint: 32 hexadecimal pairs, separated by colons"}),
]


Address = Annotated[IPv4Address | IPv6Address, BeforeValidator(_address)]


Subnet = Annotated[IPv4Network | IPv6Network, BeforeValidator(_subnet)]


Whole = Annotated[int, Field(strict=True)]


Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


TcpPort = Annotated[Whole, Field(ge=1, le=65535)]


Priority = Annotated[Whole, Field(ge=0, le=7)]


Dscp = Annotated[Whole, Field(ge=0, le=63)]


Mtu = Annotated[Whole, Field(ge=1280, le=9600)]


Kilobytes = Annotated[Whole, Field(ge=1, le=100_000)]


RailMtu = Annotated[Whole, Field(ge=1280, le=65535)]
"""Wider than Ethernet allows: IP over InfiniBand has 65520."""
