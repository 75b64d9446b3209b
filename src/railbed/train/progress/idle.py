"""How long each rank waited for slower ones, from messages that ranks send anyway.

The last sum of a step finishes on all ranks at the same moment, give or take the network's latency: no rank has it
before every rank has contributed. Ranks report the time from their own last bucket to that moment as exposed
all-reduce. The shortest of these in a step belongs to the slowest rank, which waited for no other: that much is the
network. Any longer wait of another rank is idle time. Only durations are compared, never the clocks of two machines,
and ranks send nothing extra for this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from railbed.model.record import Measurement

IDLE = "idle_seconds"
MOST_STEPS = 1000
"""Steps that some ranks have not reported yet: ranks are in step, so more are those of a rank that makes them up."""


@dataclass(slots=True)
class IdleTimes:
    """The ranks of one generation. A step that a rank never reported has no idle times: they are unknown."""

    world: int
    _waits: dict[int, dict[int, tuple[str, float]]] = field(default_factory=dict)
    """By step and rank: the node, and the seconds from the rank's last bucket to the end of the sum."""

    def receive(self, node: str, rank: int, message: Mapping[str, Any]) -> list[Measurement]:
        """Add a message of a rank; return the idle times of a step once all ranks have reported it."""
        match message:
            case {"kind": "progress", "step": int(step), "allreduce_exposed_seconds": int() | float() as seconds}:
                if step not in self._waits and len(self._waits) >= MOST_STEPS:
                    del self._waits[next(iter(self._waits))]
                waits = self._waits.setdefault(step, {})
                waits[rank] = node, float(seconds)
                if len(waits) == self.world:
                    return _idle(step, self._waits.pop(step), float(message.get("time", 0)))
        return []


def _idle(step: int, waits: Mapping[int, tuple[str, float]], time: float) -> list[Measurement]:
    least = min(seconds for _, seconds in waits.values())
    return [
        Measurement(
            name=IDLE,
            value=seconds - least,
            unit="s",
            labels={"step": step, "rank": rank, "node": node},
            time=time,
        )
        for rank, (node, seconds) in sorted(waits.items())
    ]
