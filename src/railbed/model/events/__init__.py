"""Every event that a verb can emit: one class each, with its name, its typed data and what it means.

Verbs construct them, screens and the report match on them, and `parse` reads them back from a run. As JSON the data of
an event is nested: `{"kind": "event", "name", "subject", "message", "data": {…}, "time"}`; None is left out of it.
An event that is not listed here cannot be emitted; `docs/reference/records.md` lists them all with an example.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from railbed.model.events.bench import BenchPlanned, FirstVisitDone, Remeasuring, TrialStarted
from railbed.model.events.capture import (
    CaptureMethod,
    CaptureStarted,
    ClockAligned,
    Flow,
    FlowRates,
    IncastSeen,
    Ladder,
    LadderStep,
    PacketsExported,
    PortCaptured,
    PortPaused,
    ReactionEpisode,
    Reactions,
    RecordingRead,
    Times,
)
from railbed.model.events.configure import (
    ChangesPlanned,
    ChangeStarted,
    ChangeUnfinished,
    DeviceChanged,
    FilesRendered,
)
from railbed.model.events.files import (
    ComparisonWritten,
    Detached,
    FilesCopied,
    Leftover,
    Removed,
    ReportWritten,
    Retained,
    Stopped,
    Submitted,
    WeightsFetched,
)
from railbed.model.events.general import (
    ClusterBuilt,
    DeviceRead,
    ErrorReported,
    LogLine,
    Notice,
    Progress,
    ReadingStarted,
)
from railbed.model.events.lab import (
    LabCabled,
    LabDown,
    LabEmulated,
    LabFault,
    LabFaultSet,
    LabHealed,
    LabImage,
    LabNodeBooted,
    LabNodeUp,
    LabSchedulerUp,
    LabStatus,
    LabSwitchUp,
    LabUp,
)
from railbed.model.events.ranks import (
    GenerationDone,
    GenerationFailed,
    GenerationStarted,
    Intrusion,
    NodeCut,
    NodeLost,
    NodeOut,
    NodeUp,
)
from railbed.model.events.results import ModelLoaded, TextGenerated, TextPiece
from railbed.model.events.train import (
    CaughtUp,
    CheckpointCopied,
    CheckpointFailed,
    CheckpointSaved,
    CountersRead,
    FellShort,
    GradientPath,
    LostNode,
    MemoryEstimated,
    MicroBatchHalved,
    NodeGradients,
    NodeMemory,
    RailTraffic,
    RankChoices,
    RankDone,
    Requeued,
    Resumed,
    Resuming,
    SharesChanged,
    TextSampled,
    TrainingStarted,
    TransportChosen,
    WeightsWritten,
)
from railbed.model.events.watch import ClockJumped, Sampling, SamplingGap, SamplingResumed
from railbed.model.record import Event

__all__ = [
    "EVENTS",
    "BenchPlanned",
    "CaptureMethod",
    "CaptureStarted",
    "CaughtUp",
    "ChangeStarted",
    "ChangeUnfinished",
    "ChangesPlanned",
    "CheckpointCopied",
    "CheckpointFailed",
    "CheckpointSaved",
    "ClockAligned",
    "ClockJumped",
    "ClusterBuilt",
    "ComparisonWritten",
    "CountersRead",
    "Detached",
    "DeviceChanged",
    "DeviceRead",
    "ErrorReported",
    "FellShort",
    "FilesCopied",
    "FilesRendered",
    "FirstVisitDone",
    "Flow",
    "FlowRates",
    "GenerationDone",
    "GenerationFailed",
    "GenerationStarted",
    "GradientPath",
    "IncastSeen",
    "Intrusion",
    "LabCabled",
    "LabDown",
    "LabEmulated",
    "LabFault",
    "LabFaultSet",
    "LabHealed",
    "LabImage",
    "LabNodeBooted",
    "LabNodeUp",
    "LabSchedulerUp",
    "LabStatus",
    "LabSwitchUp",
    "LabUp",
    "Ladder",
    "LadderStep",
    "Leftover",
    "LogLine",
    "LostNode",
    "MemoryEstimated",
    "MicroBatchHalved",
    "ModelLoaded",
    "NodeCut",
    "NodeGradients",
    "NodeLost",
    "NodeMemory",
    "NodeOut",
    "NodeUp",
    "Notice",
    "PacketsExported",
    "PortCaptured",
    "PortPaused",
    "Progress",
    "RailTraffic",
    "RankChoices",
    "RankDone",
    "ReactionEpisode",
    "Reactions",
    "ReadingStarted",
    "RecordingRead",
    "Remeasuring",
    "Removed",
    "ReportWritten",
    "Requeued",
    "Resumed",
    "Resuming",
    "Retained",
    "Sampling",
    "SamplingGap",
    "SamplingResumed",
    "SharesChanged",
    "Stopped",
    "Submitted",
    "TextGenerated",
    "TextPiece",
    "TextSampled",
    "Times",
    "TrainingStarted",
    "TransportChosen",
    "TrialStarted",
    "WeightsFetched",
    "WeightsWritten",
    "parse",
]

EVENTS: Mapping[str, type[Event]] = {
    kind.name: kind for kind in map(globals().get, __all__) if isinstance(kind, type) and issubclass(kind, Event)
}
"""Every event by its name."""


def parse(name: str, *, subject: str, message: str, data: Mapping[str, Any], time: float) -> Event:
    """Return an event from its parts; raise ValueError if its name is not listed or its data does not fit."""
    event = EVENTS.get(name)
    if event is None:
        raise ValueError(f"there is no event {name!r}")
    fields = {**event.fields_from(data), "subject": subject, "message": message, "time": time}
    return _adapter(name).validate_python(fields)


@cache
def _adapter(name: str) -> TypeAdapter[Event]:
    return TypeAdapter(EVENTS[name])
