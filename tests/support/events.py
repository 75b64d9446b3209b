"""Events by their name, for tests that do not need all of their data."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from typing import Any

from railbed.model import events
from railbed.model.record import Event


def event(
    name: str, *, subject: str = "", message: str = "", data: Mapping[str, Any] | None = None, time: float | None = None
) -> Event:
    """Return an event of this name, as it is read back from a run."""
    when = clock.time() if time is None else time
    return events.parse(name, subject=subject, message=message, data=data or {}, time=when)
