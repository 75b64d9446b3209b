"""A question with two arms, as a file: A and B like for like, in turns or in two visits. These classes are the file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from railbed.bench.suite import Step
from railbed.model.cluster import Mtu, Part, TcpPort, Text, Whole

Measure = Literal["bandwidth", "half_round_trip", "round_trip", "disk_bandwidth", "disk_operations"]


class Change(Part):
    """What is made different on every node for an arm, and put back after it."""

    mtu: Mtu | None = None
    """MTU of the nodes' rail interfaces; what it was is put back."""
    apply: Text | None = None
    """A command of your own, as root."""
    undo: Text | None = None
    """The command that undoes it."""

    @model_validator(mode="after")
    def _can_be_undone(self) -> Change:
        if (self.apply is None) != (self.undo is None):
            raise ValueError("apply and undo belong together")
        if (self.mtu is None) == (self.apply is None):
            raise ValueError("give either mtu, or apply and undo")
        return self


class Arm(Part):
    """One side of the question."""

    name: Text
    """What it is called in sentences."""
    change: Change | None = None
    """What is made different for it."""


class Comparison(Part):
    """One measure, got in both arms."""

    measure: Measure
    """What is compared; of a latency its middle (p50). Both arms must measure it under this name."""
    a: Step
    """The test of arm A."""
    b: Step
    """The test of arm B."""

    @model_validator(mode="after")
    def _between_nodes(self) -> Comparison:
        if self.a.is_collective or self.b.is_collective:
            raise ValueError("an experiment compares tests of tools, not collectives")
        return self


class Experiment(Part):
    """The experiment file."""

    description: Text = "an experiment"
    """The question, in a line."""
    repeats: Annotated[Whole, Field(ge=3, le=100)] = 5
    """How often each arm is measured; they take turns, and who begins changes."""
    visits: Literal[1, 2] = 1
    """With 2, arm A is measured now and arm B in a second visit, after what only a person can change."""
    between: Text | None = None
    """What to do between two visits, as an order: `move the cable …`."""
    first_port: TcpPort = 20500
    """Servers listen on free ports from here on."""
    a: Arm
    """The one arm."""
    b: Arm
    """The other."""
    comparisons: Annotated[tuple[Comparison, ...], Field(min_length=1)]
    """What is compared."""

    @model_validator(mode="after")
    def _two_visits_fit(self) -> Experiment:
        if (self.visits == 2) != (self.between is not None):
            raise ValueError("visits: 2 and between belong together")
        if self.visits == 2 and (self.a.change or self.b.change):
            raise ValueError("with visits: 2 a person makes the change: leave out change")
        return self
