"""The experiment file: a question with two arms, A and B, in turns or in two visits. These classes are its schema."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from railbed.bench.suite import Step
from railbed.model.cluster import Mtu, Name, Part, TcpPort, Text, Whole

Measure = Literal["bandwidth", "half_round_trip", "round_trip", "disk_bandwidth", "disk_operations"]


class ArmChange(Part):
    """What to change for an arm, on every node or as rules say; it is undone afterwards."""

    mtu: Mtu | None = None
    """MTU of the rail interfaces; the previous one is restored."""
    configure: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Rules whose fixes are applied, on nodes and switches, as `railbed configure` would; nothing is saved there."""
    apply: Text | None = None
    """A command to run as root."""
    undo: Text | None = None
    """The command that undoes it."""

    @model_validator(mode="after")
    def _check_undo(self) -> ArmChange:
        if (self.apply is None) != (self.undo is None):
            raise ValueError("apply and undo belong together")
        if sum(kind is not None for kind in (self.mtu, self.configure, self.apply)) != 1:
            raise ValueError("give one of mtu, configure, or apply and undo")
        return self


class Arm(Part):
    """One side of the question."""

    name: Text
    """Its name in messages."""
    change: ArmChange | None = None
    """What to change for it."""


class Comparison(Part):
    """One measure, taken in both arms."""

    measure: Measure
    """What is compared; for latencies the median (p50). Both arms must report it under this name."""
    a: Step
    """The test of arm A."""
    b: Step
    """The test of arm B."""

    @model_validator(mode="after")
    def _reject_collectives(self) -> Comparison:
        if self.a.is_collective or self.b.is_collective:
            raise ValueError("an experiment compares tests of tools, not collectives")
        return self


class Experiment(Part):
    """The experiment file."""

    description: Text = "an experiment"
    """The question, in one line."""
    repeats: Annotated[Whole, Field(ge=3, le=100)] = 5
    """How often to measure each arm; the arms take turns, in alternating order."""
    visits: Literal[1, 2] = 1
    """With 2, arm A is measured now and arm B in a second visit, after a change that only a person can make."""
    between: Text | None = None
    """What to do between the two visits, as an instruction: `move the cable …`."""
    first_port: TcpPort = 20500
    """Servers listen on free ports from this port up."""
    a: Arm
    """One arm."""
    b: Arm
    """The other arm."""
    comparisons: Annotated[tuple[Comparison, ...], Field(min_length=1)]
    """What to compare."""

    @property
    def configures(self) -> bool:
        """Whether an arm makes the changes of configure, which may be on switches: the user is asked first."""
        return any(arm.change and arm.change.configure for arm in (self.a, self.b))

    @model_validator(mode="after")
    def _check_visits(self) -> Experiment:
        if (self.visits == 2) != (self.between is not None):
            raise ValueError("visits: 2 and between belong together")
        if self.visits == 2 and (self.a.change or self.b.change):
            raise ValueError("with visits: 2 a person makes the change: remove change")
        return self
