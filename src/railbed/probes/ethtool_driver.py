"""Driver and firmware of every interface (`ethtool -i IF`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
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
class Drivers:
    """Drivers by interface."""

    interfaces: dict[str, Driver]


def parse(text: str) -> Drivers:
    """Read `ethtool -i IF` of one or many interfaces."""
    return Drivers(interfaces={name: _driver(lines) for name, lines in answers(text)})


def _driver(lines: list[str]) -> Driver:
    values: dict[str, str] = {}
    for line in lines:
        key, value = key_and_value(line)
        if key in values:
            raise ParseError("several interfaces without their names", line=line)
        values[key] = value
    if values and "driver" not in values:
        raise ParseError("no line `driver:`", line=lines[0])
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
