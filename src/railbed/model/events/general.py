"""Events of every verb: progress, sampling, ranks on nodes, and the cluster that discover found.

Events that every run is looked at for are here, too: how far a training or a bench is, what it saved, whether it fell
short.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from railbed.model.record import Event

LOST_OTHERS = "a rank lost the others"
"""In the message of a restart whose cause did not show: the node is that of a victim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """Something that users should read; the verb continues."""

    name: ClassVar = "notice"
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReported(Event):
    """The error that ends a verb, or that a rank reports."""

    name: ClassVar = "error"
    rank: int | None = None
    peer: bool | None = None
    """Another rank caused it: this one only lost its connection."""
    refused: bool | None = None
    """Another start would fail in the same way."""
    hint: str | None = None
    interference: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine(Event):
    """A line that a rank wrote to its standard output or standard error."""

    name: ClassVar = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Event):
    """The start of an activity, named by the message, or the progress of the current one if the message is the same.

    `usual` is the number of seconds the activity usually takes, `left` the estimate for the verb as a whole. `waiting`
    lists what has not answered yet; a later event with such a subject removes it from the list.
    """

    name: ClassVar = "progress"
    detail: str | None = None
    done: int | None = None
    total: int | None = None
    usual: float | None = None
    left: float | None = None
    waiting: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingStarted(Event):
    """Devices are being read."""

    name: ClassVar = "reading"
    devices: int = 0
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRead(Event):
    """A device answered, or did not."""

    name: ClassVar = "device_read"
    ok: bool
    not_understood: Mapping[str, Sequence[str]] | None = None
    """Lines that a probe does not know, by probe: no fact depends on them, but they may say what a rule should know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKeyShown(Event):
    """A machine showed a host key that is neither known nor confirmed; the message is its fingerprint.

    `known_as` is how known_hosts would list the machine.
    """

    name: ClassVar = "host_key"
    algorithm: str
    known_as: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBuilt(Event):
    """The cluster that discover found; the data is the cluster file."""

    name: ClassVar = "cluster"
    cluster: Mapping[str, Any]

    @property
    def data(self) -> Mapping[str, Any]:
        """Return the cluster itself."""
        return self.cluster

    @classmethod
    def fields_from(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields for this data."""
        return {"cluster": data}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(Event):
    """A device is sampled, or is sampled with other series than before.

    The times of its samples are those of the control machine. `clock_offset` is how far the device's own clock is
    ahead of it, `clock_error` by how much sample times may be wrong, both in seconds; switches have neither.
    """

    name: ClassVar = "sampling"
    interval: float
    series: int
    clock_offset: float | None = None
    clock_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingGap(Event):
    """No samples arrive from a device; railbed keeps trying. `last` is the time of its last sample, if any."""

    name: ClassVar = "sampling_gap"
    why: str
    last: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingResumed(Event):
    """Samples of a device arrive again, after `seconds` without any."""

    name: ClassVar = "sampling_resumed"
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTraffic(Event):
    """A TCP connection of a program that is not part of the sampled training has carried a megabyte.

    `local` and `peer` are its ends, address and port. Without a `process`, the program belongs to a user whose
    processes the sampler may not see. Reported once for each program and peer.
    """

    name: ClassVar = "foreign_traffic"
    local: str
    peer: str
    program: str = ""
    process: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumped(Event):
    """The clock of a device was set by `seconds`, or that of the control machine, whose subject is `control`.

    Times of samples follow the clock of the control machine, before and after.
    """

    name: ClassVar = "clock_jumped"
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDone(Event):
    """Every rank of a generation is done."""

    name: ClassVar = "done"
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUp(Event):
    """The agent on a node answers."""

    name: ClassVar = "node_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    """A node stopped answering, never answered, or was not ready in time."""

    name: ClassVar = "node_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCut(Event):
    """The other nodes cannot reach this one over the rail."""

    name: ClassVar = "node_cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOut(Event):
    """A node is excluded for the rest of the run."""

    name: ClassVar = "node_out"


def progress(
    message: str,
    *,
    subject: str = "",
    detail: str = "",
    done: int | None = None,
    total: int | None = None,
    usual: float | None = None,
    left: float | None = None,
    waiting: Collection[str] = (),
) -> Progress:
    """Return the event for the start of an activity or, if the message is the same as before, for its progress.

    `usual` is the number of seconds this activity usually takes, `left` the estimate for the verb as a whole.
    `waiting` lists what has not answered yet; a later event with such a subject removes it from the list.
    """
    return Progress(
        subject=subject,
        message=message,
        detail=detail or None,
        done=done,
        total=total,
        usual=usual,
        left=left,
        waiting=list(waiting) or None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStarted(Event):
    """The parameters of a training run; `run` is the name under which nodes store its state."""

    name: ClassVar = "training"
    run: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    ranks: int | None = None
    minimum: int | None = None
    transport: str | None = None
    resumes: str | None = None
    sample: float | None = None
    """Seconds between samples; 0 if nothing is sampled."""

    @property
    def steps(self) -> int:
        """Return the number of steps that the recipe asks for; 0 if it is damaged."""
        steps = self.recipe.get("steps")
        return steps if isinstance(steps, int) else 0

    @property
    def gradient_bytes(self) -> int | None:
        """Return the size of a gradient if the recipe only generates network traffic."""
        traffic = self.recipe.get("traffic")
        size = traffic.get("gradient_bytes") if isinstance(traffic, Mapping) else None
        return size if isinstance(size, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The ranks loaded the state of a step."""

    name: ClassVar = "resumed"
    rank: int | None = None
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """The state of a step is saved and verified on a node."""

    name: ClassVar = "checkpoint"
    rank: int | None = None
    step: int
    hash: str | None = None
    bytes: int | None = None
    folder: str | None = None
    seconds: float | None = None
    stall_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intrusion(Event):
    """A stranger connected to a port of the ranks and was rejected."""

    name: ClassVar = "intrusion"
    rank: int | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """When and why a node was lost."""

    step: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FellShort(Event):
    """Training took all its steps, but lost nodes, rejected an intruder or failed a check."""

    name: ClassVar = "ending"
    lost: Mapping[str, LostNode] = field(default_factory=dict)
    failed: Sequence[str] = ()
    intruders: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsWritten(Event):
    """A rank wrote the weights to a folder on its node."""

    name: ClassVar = "exported"
    rank: int | None = None
    folder: str
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted(Event):
    """A trial begins; the message is the test, the subject the participating nodes."""

    name: ClassVar = "trial"
    number: int | None = None
    seconds: float | None = None
    done: int | None = None
    total: int | None = None
    elapsed: float | None = None
    expected: float | None = None
    left: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountersRead(Event):
    """The counters of a node's cards and interfaces."""

    name: ClassVar = "counters"
    rank: int | None = None
    step: int | None = None
    begin: bool | None = None
    transport: str | None = None
    rdma: Mapping[str, Any] = field(default_factory=dict)
    net: Mapping[str, Any] = field(default_factory=dict)
    tcp_segments: int | None = None
    connections: Mapping[str, Any] | None = None
