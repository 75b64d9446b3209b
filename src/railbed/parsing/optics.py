"""What a pluggable module reports about its light: power of each lane, limits and flags, from a host or a switch.

Powers are in dBm. A host reports milliwatts too, and zero of them is no light: `NO_LIGHT`, the lowest that modules
write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from railbed.parsing.text import number

NO_LIGHT = -40.0
"""dBm that stand for no light at all."""
Direction = Literal["rx", "tx"]
POWER = re.compile(r"(-?[\d.]+|-?inf|nan) mW(?: / (-?[\d.]+|-?inf|nan) dBm)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLight:
    """One lane of a module; a value that it does not measure is None."""

    rx_dbm: float | None = None
    tx_dbm: float | None = None
    bias_ma: float | None = None
    """Current of the laser; zero if it is off."""
    flags: tuple[str, ...] = ()
    """What the module itself, or the switch, objects to: `rx power low alarm`, `tx power high warning`, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpticalModule:
    """A transceiver or cable."""

    type: str | None = None
    vendor: str | None = None
    part: str | None = None
    serial: str | None = None
    lanes: tuple[LaneLight, ...] = ()
    """Empty if the module measures nothing, as copper cables do."""
    limits: dict[str, float] = field(default_factory=dict)
    """The module's own limits in dBm, by name: `rx_low_alarm`, `rx_low_warning`, `tx_high_warning`, …"""
    is_silent: bool = False
    """Its memory answers with ones only: none of its values means anything."""


def dbm_of(milliwatts: float) -> float:
    """Return a power in dBm, rounded as tools print it."""
    return round(10 * math.log10(milliwatts), 2) if milliwatts > 0.0001 else NO_LIGHT


def power_in_dbm(text: str) -> float | None:
    """Read `0.5832 mW / -2.34 dBm`; None if it is not a power."""
    match = POWER.fullmatch(text.strip())
    if not match:
        return None
    milliwatts, dbm = match[1], match[2]
    if dbm is None:
        return None if "n" in milliwatts.lower() or milliwatts.count(".") > 1 else dbm_of(_number(milliwatts))
    if "inf" in dbm.lower():
        return NO_LIGHT
    return None if "n" in dbm.lower() or dbm.count(".") > 1 else max(NO_LIGHT, _number(dbm))


def _number(text: str) -> float:
    digits = text.lstrip("-")
    return number(("-" if text.startswith("-") else "") + (f"0{digits}" if digits.startswith(".") else digits))


def lanes_of(
    rx: Mapping[int, float | None],
    tx: Mapping[int, float | None],
    bias: Mapping[int, float | None],
    flags: Mapping[int, Iterable[str]],
) -> tuple[LaneLight, ...]:
    """Return the lanes in order, from the values that each of them has by number."""
    return tuple(
        LaneLight(
            rx_dbm=rx.get(lane), tx_dbm=tx.get(lane), bias_ma=bias.get(lane), flags=tuple(sorted(flags.get(lane, ())))
        )
        for lane in sorted({*rx, *tx, *bias, *flags})
    )
