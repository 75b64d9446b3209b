"""How a verb reaches the devices: itself or from a recording, and for how long; and the person who called it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from railbed.model.limits import DEVICE_SECONDS

Confirm = Callable[[str], bool | Awaitable[bool]]
"""Gets the question that the command asks, once what it is about has been yielded, and returns whether to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How a verb reaches the devices of a cluster."""

    timeout: float = DEVICE_SECONDS
    """Seconds that each device has to answer; raising it also raises the limit of each command."""
    record: Path | None = None
    """Also save every output of every device in this new folder."""
    replay: Path | None = None
    """Read a recording, or the folder of a run, instead of the devices."""


def confirming(confirm: Confirm | None) -> Callable[[str], Awaitable[bool]]:
    """Return the question as verbs ask it; without a `confirm` the answer is yes."""

    async def answer(question: str) -> bool:
        reply = confirm(question) if confirm else True
        return await reply if isinstance(reply, Awaitable) else reply

    return answer
