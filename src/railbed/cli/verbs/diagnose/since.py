"""The moment that --since names: a time of day, a date with or without a time, or a duration before the run's end."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from railbed.errors import UsageError
from railbed.present import wording

TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", re.ASCII)
DATE = re.compile(r"\d{4}-\d\d-\d\d.*", re.ASCII)
UNITS = ("days", "hours", "minutes", "seconds")
HINT = "a time such as 09:13 or 2026-11-17T09:13, or a duration such as 10m"


def moment(text: str, end: float) -> float:
    """Return the moment in seconds since the epoch; durations and times of day count back from the end of the run."""
    wanted = text.strip()
    since = _before(wanted, end) or _time_of_day(wanted, end) or _date(wanted)
    if since is None:
        raise UsageError(f"--since {text!r} is neither a time nor a duration", hint=HINT)
    if since > end:
        ended = wording.moment(end, "%Y-%m-%d %H:%M:%S")
        raise UsageError(f"--since {text!r} is after the end of the run, {ended}", hint=HINT)
    return since


def _before(text: str, end: float) -> float | None:
    match = DURATION.fullmatch(text)
    if not text or match is None:
        return None
    parts = {unit: int(number) for unit, number in zip(UNITS, match.groups(), strict=True) if number}
    return end - timedelta(**parts).total_seconds()


def _time_of_day(text: str, end: float) -> float | None:
    """Return the last moment before the end with this time of day."""
    match = TIME_OF_DAY.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(number or 0) for number in match.groups())
    try:
        day = datetime.fromtimestamp(end).replace(hour=hour, minute=minute, second=second, microsecond=0)
    except (ValueError, OverflowError, OSError):
        return None
    return (day if day.timestamp() <= end else day - timedelta(days=1)).timestamp()


def _date(text: str) -> float | None:
    """Return the moment of a date; a time without a zone is local."""
    if not DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
