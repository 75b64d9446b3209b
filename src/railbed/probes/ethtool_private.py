"""Private flags of every interface's driver, such as `sniffer` (`ethtool --show-priv-flags IF`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import answers, for_each_interface, key_and_value, on_or_off, without_title


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFlags(TextFacts):
    """Flags by interface, and whether they are on; none if the driver has none."""

    interfaces: dict[str, dict[str, bool]]


NONE = "No private flags defined"


def parse(text: str) -> PrivateFlags:
    """Read `ethtool --show-priv-flags IF` of one or many interfaces."""
    lines = Lines(text)
    interfaces = {name: _flags(body, lines) for name, body in answers(lines)}
    lines.require_known("expected 'Private flags for '")
    return PrivateFlags(interfaces=interfaces, not_understood=lines.not_understood)


def _flags(body: list[str], lines: Lines) -> dict[str, bool]:
    flags = {}
    for line in without_title([line for line in body if line.strip() != NONE], "Private flags for ", lines):
        with lines.reading(line):
            key, value = key_and_value(line)
            flags[key] = on_or_off(value)
    return flags


PROBE = Probe(
    name="ethtool_private",
    title="private flags of the drivers",
    command=for_each_interface('ethtool --show-priv-flags "$name"'),
    parse=parse,
    facts=PrivateFlags,
    tool="ethtool",
    package="ethtool",
)
