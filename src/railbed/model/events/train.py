"""Events of train: what ranks compute with, how they share the work, and what carries the gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from railbed.model.record import Event, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMemory:
    """The memory that the ranks of a node are estimated to need, in bytes, and what is available."""

    device: str
    ranks: int
    micro_batch: int | None = None
    estimated_rank_bytes: int
    estimated_state_bytes: int | None = None
    estimated_activation_bytes: int | None = None
    needed_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimated(Event):
    """The memory that the model will need, by node."""

    name: ClassVar = "estimate"
    parameters: int = 0
    nodes: Mapping[str, NodeMemory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankChoices(Event):
    """The device, precision and batch that a rank computes with."""

    name: ClassVar = "chosen"
    rank: int = 0
    device: str | None = None
    device_name: str | None = None
    precision: str | None = None
    compile: bool | None = None
    threads: int | None = None
    micro_limit: int | None = None
    padded: bool | None = None
    fused: bool | None = None
    peak_flops: float | None = None
    """Operations per second that MFU is counted against; 0 if this GPU is not in the table."""
    peak_source: str | None = None
    torch_version: str | None = None
    transport: str | None = None
    parameters: int | None = None
    flops_per_token: float | None = None
    sequences: int | None = None
    micro_batch: int | None = None
    micro_batches: int | None = None
    global_batch: int | None = None
    context: int | None = None
    windows: int | None = None
    vocabulary: int | None = None
    gradient_checkpointing: bool | None = None
    wire: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportChosen(Event):
    """The transport of the gradients, and why it was chosen."""

    name: ClassVar = "transport"
    rank: int | None = None
    engine: str
    reason: str = ""
    falls_back: bool = False
    timings: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resuming(Event):
    """A run continues from the state of a step, which these nodes have."""

    name: ClassVar = "resuming"
    step: int
    nodes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCopied(Event):
    """A checkpoint was copied to the run's folder, which all nodes share, and read back there."""

    name: ClassVar = "checkpoint_copied"
    step: int
    rank: int | None = None
    folder: str | None = None
    bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed(Event):
    """A checkpoint could not be saved, or is damaged."""

    name: ClassVar = "checkpoint_failed"
    rank: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesChanged(Event):
    """The batch is divided differently between fast and slow ranks."""

    name: ClassVar = "shares"
    rank: int | None = None
    step: int
    counts: Sequence[int] | None = None
    paces: Sequence[float] | None = None
    names: Sequence[str] | None = None
    cost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchHalved(Event):
    """A rank ran out of memory: from this step on it computes fewer sequences at a time, with the same result."""

    name: ClassVar = "micro_batch"
    rank: int | None = None
    step: int
    sequences: int
    """Sequences at a time from now on."""
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDone(Event):
    """A rank took its last step."""

    name: ClassVar = "rank_done"
    rank: int
    step: int
    loss: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RailTraffic:
    """Bytes that a rail sent: at least and at most, None if there is no upper bound."""

    rail: str
    netdev: str
    rdma_port: str | None = None
    rdma_bytes: tuple[int, int | None] | None = None
    tcp_bytes: tuple[int, int | None] | None = None
    other_tcp_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGradients:
    """The gradients that had to leave a node, and what its rails sent."""

    node: str
    carrier: str = ""
    """`rdma`, `tcp`, `both`, `elsewhere` (other interfaces) or `unknown`."""
    gradient_bytes: int | None = None
    hook_bytes: int | None = None
    tcp_bytes_at_most: int | None = None
    tcp_not_counted: str = ""
    """Why TCP could not be counted by connection."""
    rails: Sequence[RailTraffic] = ()
    elsewhere_bytes: Mapping[str, int] = field(default_factory=dict)
    elsewhere_tcp_bytes: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientPath(Event):
    """What carried the gradients so far, according to the counters of cards and interfaces."""

    name: ClassVar = "gradient_path"
    verdict: Verdict
    short: str
    transport: str = ""
    remedy: str = ""
    nodes: Sequence[NodeGradients] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartChecked(Event):
    """The nodes were checked when a generation had ended early; the message is what changed since the launch.

    Each rule that is worse than before the launch is also a finding with this `generation`.
    """

    name: ClassVar = "restart_checked"
    generation: int
    failed: int = 0
    """Findings that failed, and had not before the launch."""
    compared: bool = True
    """There was a check before the launch."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Nodes that could not be read at that moment, and why."""
    seconds: float | None = None
    """How long it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp(Event):
    """Training has reached the step it was at before a restart; the data is the cost."""

    name: ClassVar = "caught_up"
    lost_seconds: float
    unnoticed_seconds: float = 0.0
    stopped_seconds: float = 0.0
    again_seconds: float = 0.0
    steps_again: int = 0
    restarts: int = 1
    step: int | None = None


RETURNED = "returned"
"""How the message of a restart ends that uses a node again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStarted(Event):
    """Ranks were started on these nodes."""

    name: ClassVar = "generation"
    generation: int = 0
    nodes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFailed(Event):
    """A generation ended early: the subject is the node at fault, the message the reason."""

    name: ClassVar = "restart"
    generation: int | None = None

    @property
    def is_planned(self) -> bool:
        """Whether nothing failed: the ranks start again to use a node that has returned."""
        return self.message.endswith(RETURNED)
