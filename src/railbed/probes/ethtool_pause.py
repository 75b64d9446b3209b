"""Global pause (802.3x) of every interface (`ethtool -a IF`). Priority flow control is separate: see dcb."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import answers, for_each_interface, key_and_value, on_or_off, without_title

KNOWN = {"Autonegotiate", "RX", "TX", "RX negotiated", "TX negotiated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSettings:
    """Global pause of one interface; all None if it has none, such as a virtual interface."""

    autoneg: bool | None = None
    rx: bool | None = None
    """It stops sending when the switch sends pause frames."""
    tx: bool | None = None
    """It sends pause frames to the switch."""
    rx_negotiated: bool | None = None
    tx_negotiated: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalPause(TextFacts):
    """Global pause by interface."""

    interfaces: dict[str, PauseSettings]


def parse(text: str) -> GlobalPause:
    """Read `ethtool -a IF` of one or many interfaces."""
    lines = Lines(text)
    interfaces = {
        name: _pause(without_title(body, "Pause parameters for ", lines), lines) for name, body in answers(lines)
    }
    lines.require_known("expected 'Pause parameters for '")
    return GlobalPause(interfaces=interfaces, not_understood=lines.not_understood)


def _pause(body: list[str], lines: Lines) -> PauseSettings:
    values = {}
    for line in body:
        with lines.reading(line):
            key, value = key_and_value(line)
            if key in KNOWN:
                values[key] = on_or_off(value)
            elif not line[0].isspace() and key != "Statistics":
                lines.unknown(line)
    return PauseSettings(
        autoneg=values.get("Autonegotiate"),
        rx=values.get("RX"),
        tx=values.get("TX"),
        rx_negotiated=values.get("RX negotiated"),
        tx_negotiated=values.get("TX negotiated"),
    )


PROBE = Probe(
    name="ethtool_pause",
    title="global pause (802.3x)",
    command=for_each_interface('ethtool -a "$name"'),
    parse=parse,
    facts=GlobalPause,
    tool="ethtool",
    package="ethtool",
)
