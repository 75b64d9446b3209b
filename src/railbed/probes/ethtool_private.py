"""Private flags of every interface's driver, such as `sniffer` (`ethtool --show-priv-flags IF`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.ports import answers, for_each_interface, key_and_value, on_or_off, without_title


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFlags:
    """Flags by interface, and whether they are on; none if the driver has none."""

    interfaces: dict[str, dict[str, bool]]


NONE = "No private flags defined"


def parse(text: str) -> PrivateFlags:
    """Read `ethtool --show-priv-flags IF` of one or many interfaces."""
    return PrivateFlags(interfaces={name: _flags(lines) for name, lines in answers(text)})


def _flags(lines: list[str]) -> dict[str, bool]:
    rest = without_title([line for line in lines if line != NONE], "Private flags for ")
    return {key: on_or_off(value) for key, value in map(key_and_value, rest)}


PROBE = Probe(
    name="ethtool_private",
    title="private flags of the drivers",
    command=for_each_interface('ethtool --show-priv-flags "$name"'),
    parse=parse,
    facts=PrivateFlags,
    tool="ethtool",
    package="ethtool",
)
