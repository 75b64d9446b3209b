"""netplan's configuration as `netplan get` prints it: all its files, merged, as the next boot will read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from railbed.parsing.netconfig.stored import (
    PortIdentity,
    StoredPort,
    is_pattern,
    make_stored,
    not_understood,
    pick_ethtool,
)

MAX_CHARACTERS = 32_768
KINDS = ("ethernets", "bonds", "bridges", "vlans", "dummy-devices", "virtual-ethernets")
"""Kinds of interfaces with addresses that the probe reads: the others may contain passwords."""
ETHTOOL = {
    "tcp-segmentation-offload": "tso",
    "generic-receive-offload": "gro",
    "receive-checksum-offload": "rx",
    "transmit-checksum-offload": "tx",
}
_GENERATED = re.compile(r"10-netplan-(?P<id>.+)\.network", re.ASCII)
Definition = Mapping[object, object]


def netplan_port(text: str, port: PortIdentity) -> StoredPort | None:
    """Return what netplan stores for an interface; None if it does not name it."""
    network = _read(text)
    if network is None:
        return not_understood("netplan")
    generated = _GENERATED.fullmatch(port.network_file.rpartition("/")[2])
    fitting = []
    for kind, name, definition in _definitions(network):
        fits = name == generated["id"] if generated else _fits(name, definition, port)
        if fits is None:
            return not_understood(f"netplan ({name})")
        if fits:
            fitting.append((kind, name, definition))
    if len(fitting) > 1:
        return not_understood("netplan")
    return _read_stored(*fitting[0], port) if fitting else None


@lru_cache(maxsize=1)
def _read(text: str) -> Definition | None:
    """Return what is below `network:`, read once for all interfaces of a node; None if it is not understood."""
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        return None
    if not isinstance(document, Mapping):
        return {} if document is None else None
    network = document.get("network")
    return network if isinstance(network, Mapping) else ({} if network is None else None)


def _definitions(network: Definition) -> Iterator[tuple[str, str, Definition]]:
    for kind in KINDS:
        section = network.get(kind)
        for name, definition in section.items() if isinstance(section, Mapping) else ():
            yield kind, str(name), definition if isinstance(definition, Mapping) else {}


def _fits(name: str, definition: Definition, port: PortIdentity) -> bool | None:
    """Whether a definition is about an interface; None if that cannot be determined."""
    match = definition.get("match")
    if definition.get("set-name") == port.netdev:
        return True
    if not isinstance(match, Mapping):
        return name == port.netdev
    # Without a key, it is about every interface.
    answers: list[bool | None] = [] if match else [None]
    if "name" in match:
        answers.append(fnmatchcase(port.netdev, str(match["name"])))
    if "macaddress" in match:
        answers.append(str(match["macaddress"]).lower() == port.mac.lower())
    if "driver" in match:
        drivers = match["driver"] if isinstance(match["driver"], list) else [match["driver"]]
        answers.append(any(fnmatchcase(port.driver, str(driver)) for driver in drivers) if port.driver else None)
    if False in answers:
        return False
    if None in answers and isinstance(definition.get("set-name"), str):
        # It gives its interface another name than this one.
        return False
    return None if None in answers else True


def _read_stored(kind: str, name: str, definition: Definition, port: PortIdentity) -> StoredPort:
    overrides = definition.get("dhcp4-overrides")
    uses_mtu = overrides.get("use-mtu", True) if isinstance(overrides, Mapping) else True
    mtu = definition.get("mtu")
    return make_stored(
        "netplan" if name == port.netdev else f"netplan ({name})",
        _addresses(definition),
        None if mtu is None else str(mtu),
        asks_dhcp=definition.get("dhcp4") is True,
        mtu_from_dhcp=uses_mtu is not False,
        is_shared=kind != "ethernets" or _is_of_many(definition),
        ethtool=pick_ethtool({str(key): str(value) for key, value in definition.items()}, ETHTOOL),
    )


def _is_of_many(definition: Definition) -> bool:
    """Whether a definition may be about several interfaces."""
    match = definition.get("match")
    if not isinstance(match, Mapping) or "macaddress" in match or "set-name" in definition:
        return False
    return is_pattern(str(match.get("name", "*")))


def _addresses(definition: Definition) -> list[str]:
    """Return the addresses; one with options is a mapping with a single key."""
    listed = definition.get("addresses")
    entries = listed if isinstance(listed, list) else []
    return [str(next(iter(entry), "")) if isinstance(entry, Mapping) else str(entry) for entry in entries]
