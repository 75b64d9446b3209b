"""The stanzas of ifupdown in /etc/network/interfaces and the files that it includes.

The commands of a stanza are understood if they set an MTU or an address as people write it; any other command that
seems to set either makes it unclear.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import NamedTuple

from railbed.parsing.netconfig.stored import (
    OFFLOADS,
    PAUSES,
    PortIdentity,
    StoredPort,
    make_stored,
    not_understood,
    pick_ethtool,
)

MAIN = "/etc/network/interfaces"
MAX_DEPTH = 4
"""Of files that include others."""
STARTS = ("auto", "allow-auto", "allow-hotplug")
COMMANDS = ("pre-up", "up", "post-up")
ENDS = (*STARTS, "mapping", "source", "source-directory", "no-auto-down", "no-scripts", "rename", "template")
"""What ends a stanza, besides the next one."""
ETHTOOL = {**{f"offload-{name}": name for name in OFFLOADS}, **{f"ethernet-{name}": name for name in PAUSES}}
"""What the hook of Debian's package ethtool reads. Commands that call it are looked for elsewhere (`boot_scripts`)."""
_IP = r"(?:(?:/usr)?/s?bin/)?ip "
_MTU = re.compile(rf"{_IP}link set (?:dev )?(?P<netdev>\S+) (?:up )?mtu (?P<mtu>\d{{1,7}})(?: up)?", re.ASCII)
_ADDRESS = re.compile(
    rf"{_IP}addr(?:ess)? (?:add|replace) (?P<address>[0-9a-fA-F.:]+/\d{{1,3}}) dev (?P<netdev>\S+)", re.ASCII
)
_MAY_SET = {"mtu": re.compile(r"mtu", re.IGNORECASE), "addresses": re.compile(r"addr|ifconfig|dhc", re.IGNORECASE)}


class StanzaLine(NamedTuple):
    """A line of a file: its first word, and the others."""

    path: str
    key: str
    words: tuple[str, ...]

    @property
    def rest(self) -> str:
        """What follows the first word, with single blanks."""
        return " ".join(self.words)


class _NotUnderstood(Exception):
    """Raised for a file that was not read, or includes itself."""


def ifupdown_port(files: Mapping[str, str], port: PortIdentity) -> StoredPort | None:
    """Return what the files store for an interface; None if they do not start it."""
    try:
        lines = list(_lines(files, MAIN, MAX_DEPTH))
    except _NotUnderstood:
        return not_understood(MAIN)
    if any(line.key in ("mapping", "template", "rename") for line in lines):
        return not_understood(MAIN)
    started = any(line.key in STARTS and any(fnmatchcase(port.netdev, name) for name in line.words) for line in lines)
    stanzas = [stanza for stanza in _stanzas(lines) if stanza[0].words[:1] == (port.netdev,)]
    return _read_stored(stanzas, port) if started and stanzas else None


def _lines(files: Mapping[str, str], path: str, depth: int) -> Iterator[StanzaLine]:
    """Yield the lines of a file and of those that it includes, in the order in which ifupdown reads them."""
    if path not in files or not depth:
        raise _NotUnderstood
    for text in files[path].replace("\\\n", " ").splitlines():
        words = text.split()
        if not words or words[0].startswith("#"):
            continue
        yield StanzaLine(path, words[0], tuple(words[1:]))
        if words[0] in ("source", "source-directory"):
            for included in _find_included(files, path, words):
                yield from _lines(files, included, depth - 1)


def _find_included(files: Mapping[str, str], path: str, words: Sequence[str]) -> list[str]:
    """Return the files that a line includes; a pattern for files in a folder that was not read is not understood."""
    pattern = posixpath.join(posixpath.dirname(path), " ".join(words[1:]))
    if words[0] == "source-directory" or pattern.rstrip("/") == f"{MAIN}.d":
        pattern = f"{pattern.rstrip('/')}/*"
    if posixpath.dirname(pattern) != f"{MAIN}.d":
        raise _NotUnderstood
    return sorted(name for name in files if name != MAIN and fnmatchcase(name, pattern))


def _stanzas(lines: Sequence[StanzaLine]) -> Iterator[list[StanzaLine]]:
    for at, line in enumerate(lines):
        if line.key == "iface":
            yield [line, *takewhile(lambda later: later.key not in ("iface", *ENDS), lines[at + 1 :])]


def _read_stored(stanzas: Sequence[Sequence[StanzaLine]], port: PortIdentity) -> StoredPort:
    """Return what the stanzas of an interface add up to."""
    addresses: list[str] = []
    mtu, unclear, asks_dhcp = None, set[str](), False
    ethtool: dict[str, str] = {}
    for head, *options in stanzas:
        values = {line.key: line.rest for line in options}
        if "inherits" in head.words:
            unclear.update((*_MAY_SET, *OFFLOADS, *PAUSES))
        ethtool |= pick_ethtool(values, ETHTOOL)
        asks_dhcp |= head.words[1:] == ("inet", "dhcp")
        mtu = values.get("mtu", mtu)
        if address := values.get("address"):
            addresses.append(f"{address}/{values['netmask']}" if "netmask" in values else address)
        for command in (line.rest for line in options if line.key in COMMANDS):
            mtu = _understand(command, port.netdev, addresses, unclear) or mtu
    return make_stored(
        stanzas[0][0].path,
        addresses,
        mtu,
        asks_dhcp=asks_dhcp,
        mtu_from_dhcp=True,
        unclear=unclear,
        ethtool=ethtool,
    )


def _understand(command: str, netdev: str, addresses: list[str], unclear: set[str]) -> str:
    """Add the address that a command sets, and return the MTU that it sets; note what it may set besides."""
    command = command.replace("$IFACE", netdev)
    for part in re.split(r"&&|;", command):
        text = part.replace("|| true", "").strip()
        if match := _MTU.fullmatch(text):
            if match["netdev"] == netdev:
                return match["mtu"]
        elif match := _ADDRESS.fullmatch(text):
            addresses += [match["address"]] if match["netdev"] == netdev else []
        else:
            unclear.update(setting for setting, sign in _MAY_SET.items() if sign.search(text))
    return ""
