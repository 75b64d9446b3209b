"""The files of systemd-networkd: which applies to an interface, and what it stores.

The first file, by name, whose [Match] fits applies, with its drop-ins; a file in /etc hides one of the same name in
/run and /usr/lib. A match that is not understood is decided by what networkd itself reports.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from railbed.parsing.netconfig.stored import (
    PortIdentity,
    StoredPort,
    is_pattern,
    make_stored,
    matches_globs,
    pick_ethtool,
)

FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
"""Where files are, the one that counts first."""
ETHTOOL = {
    "TCPSegmentationOffload": "tso",
    "GenericReceiveOffload": "gro",
    "ReceiveChecksumOffload": "rx",
    "TransmitChecksumOffload": "tx",
    "RxFlowControl": "pause-rx",
    "TxFlowControl": "pause-tx",
}
"""Keys of the [Link] section of .link files, which systemd-udevd applies whatever service configures the network."""
TRUE = ("1", "yes", "true", "on")
FALSE = ("0", "no", "false", "off")


class UnitSetting(NamedTuple):
    """A line of a file."""

    section: str
    key: str
    value: str


def networkd_port(files: Mapping[str, str], port: PortIdentity) -> StoredPort | None:
    """Return what the files store for an interface; None if none applies."""
    for name, path in sorted(_by_name(path for path in files if path.endswith(".network")).items()):
        settings = [*read_settings(files[path]), *_drop_ins(files, name)]
        fits = _fits([setting for setting in settings if setting.section == "Match"], port)
        if fits is None:
            fits = posixpath.basename(port.network_file) == name
        if fits and settings:
            return _read_stored(path, settings)
    return None


def link_file(files: Mapping[str, str], path: str) -> StoredPort | None:
    """Return what the .link file that applies to an interface stores, with its drop-ins; None if it was not read."""
    if path not in files:
        return None
    settings = [*read_settings(files[path]), *_drop_ins(files, posixpath.basename(path))]
    values = {setting.key: setting.value for setting in settings if setting.section == "Link" and setting.value}
    return make_stored(path, (), None, ethtool=pick_ethtool(values, ETHTOOL))


def read_settings(text: str) -> Iterator[UnitSetting]:
    """Yield the settings of a file, in order."""
    section = ""
    for line in map(str.strip, text.replace("\\\n", " ").splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            yield UnitSetting(section, key.strip(), value.strip())


def _by_name(paths: Iterable[str]) -> dict[str, str]:
    """Return the path that counts, by file name."""
    chosen: dict[str, str] = {}
    for path in sorted(paths, key=_place):
        chosen.setdefault(posixpath.basename(path), path)
    return chosen


def _place(path: str) -> int:
    return next((at for at, folder in enumerate(FOLDERS) if path.startswith(f"{folder}/")), len(FOLDERS))


def _drop_ins(files: Mapping[str, str], name: str) -> Iterator[UnitSetting]:
    paths = [path for path in files if posixpath.basename(posixpath.dirname(path)) == f"{name}.d"]
    for _, path in sorted(_by_name(paths).items()):
        yield from read_settings(files[path])


def _fits(match: Collection[UnitSetting], port: PortIdentity) -> bool | None:
    """Whether a [Match] section fits; None if that is not understood. All its keys have to fit."""
    answers = [_fits_key(setting, port) for setting in match if setting.value]
    if False in answers:
        return False
    return None if None in answers else True


def _fits_key(setting: UnitSetting, port: PortIdentity) -> bool | None:
    words = setting.value.split()
    match setting.key:
        case "Name":
            return matches_globs(port.netdev, words)
        case "MACAddress" | "PermanentMACAddress":
            return port.mac.lower() in {word.lower().replace("-", ":") for word in words}
        case "Driver" if port.driver:
            return matches_globs(port.driver, words)
    return None


def _is_of_many(match: Collection[UnitSetting]) -> bool:
    """Whether a [Match] section may be about several interfaces."""
    values = {setting.key: setting.value.split() for setting in match}
    if any(len(values.get(key, ())) == 1 for key in ("MACAddress", "PermanentMACAddress")):
        return False
    names = values.get("Name", [])
    return len(names) != 1 or is_pattern(names[0])


def _read_stored(path: str, settings: Collection[UnitSetting]) -> StoredPort | None:
    values = {(setting.section, setting.key): setting.value for setting in settings}
    if values.get(("Link", "Unmanaged"), "no").lower() in TRUE:
        return None
    addresses: list[str] = []
    for setting in settings:
        if setting.key == "Address" and setting.section in ("Network", "Address"):
            # An empty value takes back those before it.
            addresses = [*addresses, setting.value] if setting.value else []
    dhcp = values.get(("Network", "DHCP"), "no").lower()
    asks_dhcp = dhcp in (*TRUE, "ipv4", "both", "v4")
    known = asks_dhcp or dhcp in (*FALSE, "ipv6", "v6", "none")
    uses_mtu = values.get(("DHCPv4", "UseMTU")) or values.get(("DHCP", "UseMTU"), "no")
    return make_stored(
        path,
        addresses,
        values.get(("Link", "MTUBytes")) or None,
        asks_dhcp=asks_dhcp,
        mtu_from_dhcp=uses_mtu.lower() in TRUE,
        unclear=() if known else ("addresses",),
        is_shared=_is_of_many([setting for setting in settings if setting.section == "Match"]),
    )
