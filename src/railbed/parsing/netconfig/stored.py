"""What a network service stores for an interface, in the same form for all services.

A setting that a service stores in a way that is not understood is `unclear`: that is neither stored nor missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import ip_interface

LARGEST_MTU = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PortIdentity:
    """What configurations select an interface by."""

    netdev: str
    mac: str = ""
    driver: str = ""
    network_file: str = ""
    """The file of systemd-networkd that applies to it right now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPort:
    """What a service will do with an interface at boot."""

    source: str
    """Where it is stored: a file, a name of netplan, a connection of NetworkManager."""
    addresses: tuple[str, ...] = ()
    """With their prefixes."""
    mtu: int | None = None
    asks_dhcp: bool = False
    """It also gets an IPv4 address that a DHCP server chooses."""
    unclear: tuple[str, ...] = ()
    """Which of `addresses`, `mtu` and the keys of `ethtool` it may set in a way that is not understood."""
    is_shared: bool = False
    """A file of railbed's cannot add to it for this interface alone."""
    ethtool: dict[str, bool] = field(default_factory=dict)
    """What `ethtool -K` and `ethtool -A` set: whether `tso`, `gro`, `rx`, `tx`, `pause-rx` and `pause-tx` are on."""


OFFLOADS = ("tso", "gro", "rx", "tx")
PAUSES = ("pause-rx", "pause-tx")
UNCLEAR = ("addresses", "mtu", *OFFLOADS, *PAUSES)
SWITCH = {
    **dict.fromkeys(("on", "yes", "true", "1"), True),
    **dict.fromkeys(("off", "no", "false", "0"), False),
}


def read_address(text: str) -> str | None:
    """Return an address with its prefix as Python writes it; None if it is not one."""
    try:
        return str(ip_interface(text.strip()))
    except ValueError:
        return None


def pick_ethtool(values: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the settings that `ethtool` would set, from the configuration's own keys for them."""
    return {name: values[key] for key, name in keys.items() if key in values}


def read_mtu(text: str) -> int | None:
    """Return an MTU; None if the text is not a plain number."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 7 and int(text) <= LARGEST_MTU else None


def make_stored(
    source: str,
    addresses: Iterable[str],
    mtu: str | None,
    *,
    asks_dhcp: bool = False,
    mtu_from_dhcp: bool = False,
    unclear: Iterable[str] = (),
    is_shared: bool = False,
    ethtool: Mapping[str, str] | None = None,
) -> StoredPort:
    """Return what is stored, from its texts; those that cannot be read make the setting unclear."""
    switches = {name: SWITCH.get(text.strip().lower()) for name, text in (ethtool or {}).items()}
    unclear = {*unclear, *(name for name, on in switches.items() if on is None)}
    read = [(text, read_address(text)) for text in addresses]
    if any(address is None for _, address in read):
        unclear.add("addresses")
    number = None if mtu is None else read_mtu(mtu)
    if (mtu is not None and number is None) or (mtu is None and asks_dhcp and mtu_from_dhcp):
        unclear.add("mtu")
    return StoredPort(
        source=source,
        addresses=tuple(dict.fromkeys(address for _, address in read if address is not None)),
        mtu=number,
        asks_dhcp=asks_dhcp,
        unclear=tuple(sorted(unclear)),
        is_shared=is_shared,
        ethtool={name: on for name, on in switches.items() if on is not None},
    )


def not_understood(source: str) -> StoredPort:
    """Return that a service may store anything for an interface."""
    return StoredPort(source=source, unclear=UNCLEAR)


def is_pattern(name: str) -> bool:
    """Whether a name in a configuration may stand for several interfaces."""
    return any(character in name for character in "*?[!")


def matches_globs(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches a pattern, and none that begins with `!`, as systemd and NetworkManager compare them."""
    patterns = list(patterns)
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    if any(fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)
