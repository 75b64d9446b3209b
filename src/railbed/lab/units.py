"""Rates, times and percentages as people write them."""

from __future__ import annotations

import re

from railbed.errors import UsageError

RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kKmMgG])(?:bit(?:/s)?|b/s|bps)?", re.ASCII)
DELAY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s)", re.ASCII)
PERCENT = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*%?", re.ASCII)
PER_SECOND = {"k": 1e3, "m": 1e6, "g": 1e9}
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
FASTEST = 4e11


def parse_rate(text: str) -> int:
    """Read `10G`, `500M`, `1.5Gbit` as bit/s."""
    match = RATE.fullmatch(text.strip())
    rate = float(match["number"]) * PER_SECOND[match["unit"].lower()] if match else 0
    if not 0 < rate <= FASTEST:
        raise UsageError(f"{text!r} is not a rate", hint="write it as 500M, 1G, 10G or 40G (bit/s), at most 400G")
    return round(rate)


def parse_delay(text: str) -> float:
    """Read `50us`, `2ms` as seconds."""
    match = DELAY.fullmatch(text.strip())
    delay = float(match["number"]) * SECONDS[match["unit"]] if match else 0
    if not 0 < delay <= 1:
        raise UsageError(f"{text!r} is not a delay", hint="write it as 50us or 2ms, at most 1s")
    return delay


def parse_percent(text: str) -> float:
    """Read `5`, `0.1%`."""
    match = PERCENT.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a percentage", hint="write it as 0.1 or 5")
    return float(match["number"])
