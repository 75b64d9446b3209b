"""Events of lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class LabUp(Event):
    """A lab is up; `cluster` is its cluster file."""

    name: ClassVar = "lab_up"
    cluster: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabDown(Event):
    """A lab was taken down."""

    name: ClassVar = "lab_down"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabCabled(Event):
    """The namespaces of a lab are connected."""

    name: ClassVar = "lab_cabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNodeUp(Event):
    """A node of a lab answers over SSH."""

    name: ClassVar = "lab_node_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSwitchUp(Event):
    """The emulated switch of a lab answers, and its ports are cabled."""

    name: ClassVar = "lab_switch_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSchedulerUp(Event):
    """The scheduler of a lab has all nodes, and can run jobs on them."""

    name: ClassVar = "lab_scheduler_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNodeBooted(Event):
    """A virtual machine of a lab booted."""

    name: ClassVar = "lab_node_booted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabImage(Event):
    """The image of virtual machines is being built, or a step of the build is done."""

    name: ClassVar = "lab_image"
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabEmulated(Event):
    """Virtual machines are emulated in software; the message is the reason."""

    name: ClassVar = "lab_emulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabFaultSet(Event):
    """A fault is in force."""

    name: ClassVar = "lab_fault"
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHealed(Event):
    """A fault was undone."""

    name: ClassVar = "lab_healed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabFault:
    """A fault in force on a node, a rail, the switch or the controller, and a description of it."""

    fault: str
    target: str
    value: float | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabStatus(Event):
    """A lab with its nodes and faults."""

    name: ClassVar = "lab"
    kind: str
    nodes: int
    rails: int
    rate: int | None = None
    delay: float | None = None
    memory: int = 0
    arch: str | None = None
    switch: str | None = None
    """Model of its emulated switch."""
    scheduler: str | None = None
    cluster: str
    states: Mapping[str, str] = field(default_factory=dict)
    faults: Sequence[LabFault] = ()
