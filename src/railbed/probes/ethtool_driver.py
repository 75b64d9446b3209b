"""Driver and firmware of every interface (`ethtool -i IF`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import answers, for_each_interface, key_and_value

NOTHING = ("", "N/A", "n/a")


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The driver of one interface."""

    driver: str | None = None
    version: str | None = None
    """For in-tree drivers this is the kernel's version."""
    firmware: str | None = None
    """For NVIDIA cards with the board's id in brackets: `22.36.1010 (MT_0000000359)`."""
    bus: str | None = None
    """PCI address, such as `0000:01:00.0`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drivers(TextFacts):
    """Drivers by interface."""

    interfaces: dict[str, Driver]


def parse(text: str) -> Drivers:
    """Read `ethtool -i IF` of one or many interfaces."""
    lines = Lines(text)
    interfaces = {name: _driver(body, lines) for name, body in answers(lines)}
    lines.require_known("no line `driver:`")
    return Drivers(interfaces=interfaces, not_understood=lines.not_understood)


def _driver(body: list[str], lines: Lines) -> Driver:
    values: dict[str, str] = {}
    for line in body:
        with lines.reading(line):
            key, value = key_and_value(line)
            values.setdefault(key, value)
    if sum(line.startswith("driver:") for line in map(str.strip, body)) > 1:
        raise ParseError("several interfaces without their names", line=body[-1])
    if values and "driver" not in values:
        raise ParseError("no line `driver:`", line=body[0])
    known = {key: value for key, value in values.items() if value not in NOTHING}
    return Driver(
        driver=known.get("driver"),
        version=known.get("version"),
        firmware=known.get("firmware-version"),
        bus=known.get("bus-info"),
    )


PROBE = Probe(
    name="ethtool_driver",
    title="driver, firmware and PCI address of the interfaces",
    command=for_each_interface('ethtool -i "$name"'),
    parse=parse,
    facts=Drivers,
    tool="ethtool",
    package="ethtool",
)
