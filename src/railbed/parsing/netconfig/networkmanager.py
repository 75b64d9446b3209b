"""NetworkManager's connections as `nmcli -t` prints them: which one an interface gets at boot, and what it stores."""

from __future__ import annotations

import re
from collections.abc import Mapping

from railbed.parsing.netconfig.stored import (
    OFFLOADS,
    PAUSES,
    PortIdentity,
    StoredPort,
    make_stored,
    not_understood,
    pick_ethtool,
)

FIELDS = (
    *("connection.id", "connection.type", "connection.interface-name", "connection.autoconnect"),
    *("connection.autoconnect-priority", "802-3-ethernet.mac-address", "802-3-ethernet.mtu"),
    *("ipv4.method", "ipv4.addresses", "ipv6.addresses"),
)
ETHTOOL = {
    **{f"ethtool.feature-{name}": name for name in OFFLOADS},
    **{f"ethtool.{name}": name for name in PAUSES},
}
_PRIORITY = re.compile(r"-?\d{1,4}", re.ASCII)
_ESCAPES = (("\\\\", "\1"), ("\\:", "\0"))
"""What `nmcli -t` puts a backslash before, and what stands for it while the line is split."""
_NOT_SET = ("", "--", "ignore")
ETHERNET = "802-3-ethernet"


def networkmanager_port(devices: str, connections: Mapping[str, str], port: PortIdentity) -> StoredPort | None:
    """Return what the connection that will be active on an interface stores; None if there will be none."""
    rows = [cells(line) for line in devices.splitlines()]
    state, active = next(((row[1], row[2]) for row in rows if len(row) > 2 and row[0] == port.netdev), ("", ""))
    if state == "unmanaged":
        return None
    stored = {uuid: values for uuid, text in connections.items() if _lasts(values := _values(text))}
    fitting = {uuid: values for uuid, values in stored.items() if _fits(values, port)}
    highest = max((_priority(values) for values in fitting.values()), default=0)
    best = {uuid: values for uuid, values in fitting.items() if _priority(values) == highest}
    if not best:
        return None
    # Among equals, the one that was active last is taken; one for any interface may go to another.
    if active in best:
        return _read_stored(best[active])
    only = next(iter(best.values()))
    return _read_stored(only) if len(best) == 1 and any(_names(only)) else not_understood("NetworkManager")


def cells(line: str) -> list[str]:
    """Split a line of `nmcli -t` at the colons that no backslash escapes."""
    for escaped, mark in _ESCAPES:
        line = line.replace(escaped, mark)
    return [cell.replace("\0", ":").replace("\1", "\\") for cell in line.split(":")]


def _values(text: str) -> dict[str, str]:
    rows = (cells(line) for line in text.splitlines())
    return {key: ":".join(values) for key, *values in rows}


def _lasts(values: Mapping[str, str]) -> bool:
    """Whether a connection is on the disk and starts by itself; netplan writes its own into /run at boot."""
    filename = values.get("filename", "")
    return filename != "" and not filename.startswith("/run/") and values.get("connection.autoconnect") != "no"


def _names(values: Mapping[str, str]) -> tuple[str, str]:
    """Return the name and the hardware address of the interface that a connection is for."""
    return values.get("connection.interface-name", ""), values.get("802-3-ethernet.mac-address", "")


def _fits(values: Mapping[str, str], port: PortIdentity) -> bool:
    name, mac = _names(values)
    if name or mac:
        return name in ("", port.netdev) and mac.lower() in ("", port.mac.lower())
    return values.get("connection.type") == ETHERNET


def _priority(values: Mapping[str, str]) -> int:
    text = values.get("connection.autoconnect-priority", "0")
    return int(text) if _PRIORITY.fullmatch(text) else 0


def _read_stored(values: Mapping[str, str]) -> StoredPort:
    method, mtu = values.get("ipv4.method", ""), values.get("802-3-ethernet.mtu", "auto")
    listed = (text for key in ("ipv4.addresses", "ipv6.addresses") for text in values.get(key, "").split(","))
    return make_stored(
        f"NetworkManager's connection {values.get('connection.id', '')}",
        [text for text in listed if text.strip() not in ("", "--")],
        None if mtu in ("auto", "0", "", "--") else mtu,
        asks_dhcp=method == "auto",
        mtu_from_dhcp=True,
        is_shared=True,
        ethtool=pick_ethtool({key: text for key, text in values.items() if text not in _NOT_SET}, ETHTOOL),
        unclear=() if method in ("auto", "manual", "disabled", "link-local") else ("addresses",),
    )
