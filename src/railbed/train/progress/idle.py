"""How long each rank waited for slower ones, from what the ranks tell anyway.

The last sum of a step is there on all ranks at the same moment, within one journey through the network: nobody has it
before everybody gave its part. The time from a rank's own last bucket to that moment is what it tells as exposed
all-reduce. The shortest of these in a step is that of the slowest rank, which waited for nobody: this much is the
network's. By what another rank's is longer, it was idle. Only lengths of time are compared, never the clocks of two
machines, and no rank does or sends anything more for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from railbed.model.record import Measurement

IDLE = "idle_seconds"


@dataclass(slots=True)
class IdleTimes:
    """The ranks of one generation. A step that a rank never tells of has no idle times: they are unknown."""

    world: int
    _told: dict[int, dict[int, tuple[str, float]]] = field(default_factory=dict)
    """By step and rank: the node, and the seconds from the rank's last bucket to the end of the sum."""

    def hear(self, node: str, rank: int, said: Mapping[str, Any]) -> list[Measurement]:
        """Take what a rank said; return the idle times of a step once all ranks have told of it."""
        match said:
            case {"kind": "progress", "step": int(step), "allreduce_exposed_seconds": int() | float() as seconds}:
                told = self._told.setdefault(step, {})
                told[rank] = node, float(seconds)
                if len(told) == self.world:
                    return _idle(step, self._told.pop(step), float(said.get("time", 0)))
        return []


def _idle(step: int, told: Mapping[int, tuple[str, float]], time: float) -> list[Measurement]:
    least = min(seconds for _, seconds in told.values())
    return [
        Measurement(
            name=IDLE,
            value=seconds - least,
            unit="s",
            labels={"step": step, "rank": rank, "node": node},
            time=time,
        )
        for rank, (node, seconds) in sorted(told.items())
    ]
