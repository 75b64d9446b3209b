"""Events of runs and their files: of background and Slurm runs, bench, configure, generate, export, report, compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached(Event):
    """A run continues in the background."""

    name: ClassVar = "detached"
    run: str
    folder: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(Event):
    """A run is in Slurm's queue, as a job."""

    name: ClassVar = "submitted"
    run: str
    folder: str
    job: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Event):
    """A run was stopped, or had ended before."""

    name: ClassVar = "stopped"
    was: str
    status: str
    exit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsFetched(Event):
    """The weights of a run are in a folder on this machine."""

    name: ClassVar = "weights"
    folder: str
    node: str
    step: int
    bytes: int
    finished: bool
    form: str | None = None
    """`weights`, `adapter`, `merged` or `gguf`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesCopied(Event):
    """A node has received a large set of files, such as a model, completely, and verified it.

    `source` is the node that passed it on and `rail` the way it took; both are missing if it came from the machine that
    started the run. `continued` is how many bytes an earlier, interrupted copy had left there.
    """

    name: ClassVar = "files_copied"
    bytes: int
    seconds: float
    continued: int = 0
    source: str | None = None
    rail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWritten(Event):
    """A report is written to a file."""

    name: ClassVar = "report"
    file: str
    format: str
    verdict: str
    sections: Sequence[str]
    figures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonWritten(Event):
    """A page about two runs is written to a file."""

    name: ClassVar = "compare"
    file: str
    verdict: str
    sections: Sequence[str]
    figures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover(Event):
    """A file or folder that a run left behind and that can be removed."""

    name: ClassVar = "leftover"
    run: str | None = None
    bytes: int
    status: str | None = None
    node: str | None = None
    used: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained(Event):
    """A file or folder that is not removed; the message is the reason."""

    name: ClassVar = "retained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed(Event):
    """A file or folder that was removed."""

    name: ClassVar = "removed"
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlanned(Event):
    """What the benchmark will measure, and how long that will take."""

    name: ClassVar = "bench"
    suite: str = ""
    trials: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Remeasuring(Event):
    """Pairs that lag behind are measured again."""

    name: ClassVar = "remeasuring"
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstVisitDone(Event):
    """The first visit of an experiment is measured; the data is what the second visit needs."""

    name: ClassVar = "first_visit"
    experiment: Mapping[str, Any] = field(default_factory=dict)
    paths: Sequence[Sequence[str]] = ()


Outcome = Literal["applied", "undone", "restored", "refused", "unknown"]
"""`applied` and `undone` succeeded. `restored`: it failed, and the device was restored. `refused`: nothing was done.
`unknown`: it failed, and so did restoring the device, or the connection broke before that was certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlanned(Event):
    """All changes have been listed; `devices` would be changed."""

    name: ClassVar = "changes_planned"
    devices: Sequence[str]
    changes: int
    left_out: int
    interrupts: Sequence[str] = ()
    """Devices whose traffic may stop for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStarted(Event):
    """A device is being changed. Without a `device_changed` after it, the change was cut short."""

    name: ClassVar = "change_started"
    run: str | None = None
    """The run that is being undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChanged(Event):
    """A device was changed, or not; the message is the reason."""

    name: ClassVar = "device_changed"
    outcome: Outcome
    run: str | None = None
    """The run that was undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeUnfinished(Event):
    """An earlier run was cut short while it changed this device; the message says how to proceed."""

    name: ClassVar = "change_unfinished"
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRendered(Event):
    """The changes are written as files, for people who apply them by hand."""

    name: ClassVar = "files_rendered"
    folder: str
    files: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoaded(Event):
    """A node loaded a model, which now generates."""

    name: ClassVar = "model"
    folder: str
    architecture: str
    parameters: int
    device: str
    precision: str
    base: str | None = None
    """The folder of the model below an adapter."""
    chat: bool = False
    """Prompts are put into the model's chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece(Event):
    """Text that was just generated for a prompt, counted from 0; `when` is `before` or `after` fine-tuning."""

    name: ClassVar = "piece"
    prompt: int
    when: str | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGenerated(Event):
    """The answer to a prompt; `stop` says why it ends.

    `end`: the model ended it; `tokens`: as many tokens as were requested; `context`: the model's context is full;
    `interrupted`: railbed was.
    """

    name: ClassVar = "generated"
    prompt: int
    when: str | None = None
    input: str
    text: str
    tokens: Sequence[int] = ()
    prompt_tokens: int | None = None
    stop: str
    seconds: float | None = None
    """Time after the prompt was processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued(Event):
    """A Slurm job gives its nodes back, and continues after another start; the message is the reason.

    `step` is that of the state in the run's folder; without one, training starts again at step 1.
    """

    name: ClassVar = "requeued"
    job: int
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSampled(Event):
    """Tokens that the model generated, and their text."""

    name: ClassVar = "sample"
    rank: int | None = None
    step: int | None = None
    tokens: Sequence[int] | None = None
    text: str | None = None
