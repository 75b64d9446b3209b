"""Shapes that many show commands share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

Row = dict[str, object]


def table(name: str, rows: Iterable[Mapping[str, object]]) -> Row:
    """Return a TABLE_/ROW_ pair; like NX-OS, one row is a dict, several are a list, and none is no table at all."""
    listed = [dict(row) for row in rows]
    if not listed:
        return {}
    return {f"TABLE_{name}": {f"ROW_{name}": listed[0] if len(listed) == 1 else listed}}


def age(seconds: float) -> str:
    """Return a time span as interface tables print it."""
    total = int(max(seconds, 0))
    days, rest = divmod(total, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    if days >= 7:
        return f"{days // 7}week(s) {days % 7}day(s)"
    return f"{days}day(s) {rest // 3600}hour(s)" if days else clock


def timestamp(moment: float) -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y", time.gmtime(moment))


def speed_name(mbps: int) -> str:
    return f"{mbps // 1000}G" if mbps >= 10_000 else str(mbps)
