"""Every event that a verb can emit: one class each, with its name, its typed data and what it means.

Read `general.py` first.

Verbs construct them, screens and the report match on them, and `parse` reads them back from a run. As JSON the data of
an event is nested: `{"kind": "event", "name", "subject", "message", "data": {…}, "time"}`; None is left out of it.
An event that is not in `listed.py` cannot be emitted; `docs/reference/records.md` has an example of each.

A class is loaded when it is first used: to make all of them takes a sixth of the time in which `railbed check` starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from railbed.model.events.listed import LISTED, PARTS
from railbed.model.record import Event

if TYPE_CHECKING:
    from railbed.model.events.bmc import BmcReport
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
    from railbed.model.events.general import (
        CheckpointSaved,
        ClockJumped,
        ClusterBuilt,
        CountersRead,
        DeviceRead,
        ErrorReported,
        FellShort,
        ForeignTraffic,
        GenerationDone,
        HostKeyShown,
        Intrusion,
        LogLine,
        LostNode,
        NodeCut,
        NodeLost,
        NodeOut,
        NodeUp,
        Notice,
        Progress,
        ReadingStarted,
        Resumed,
        Sampling,
        SamplingGap,
        SamplingResumed,
        TrainingStarted,
        TrialStarted,
        WeightsWritten,
    )
    from railbed.model.events.inventory import (
        DiskListed,
        GpuListed,
        MachineListed,
        NodePortListed,
        SwitchListed,
        SwitchPortListed,
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
    from railbed.model.events.runs import (
        BenchPlanned,
        ChangesPlanned,
        ChangeStarted,
        ChangeUnfinished,
        ComparisonWritten,
        Detached,
        DeviceChanged,
        FilesCopied,
        FilesRendered,
        FirstVisitDone,
        Leftover,
        ModelLoaded,
        Remeasuring,
        Removed,
        ReportWritten,
        Requeued,
        Retained,
        Stopped,
        Submitted,
        TextGenerated,
        TextPiece,
        TextSampled,
        WeightsFetched,
    )
    from railbed.model.events.train import (
        CaughtUp,
        CheckpointCopied,
        CheckpointFailed,
        GenerationFailed,
        GenerationStarted,
        GradientPath,
        MemoryEstimated,
        MicroBatchHalved,
        NodeGradients,
        NodeMemory,
        RailTraffic,
        RankChoices,
        RankDone,
        RestartChecked,
        Resuming,
        SharesChanged,
        TransportChosen,
    )

__all__ = [
    "BenchPlanned",
    "BmcReport",
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
    "DiskListed",
    "ErrorReported",
    "FellShort",
    "FilesCopied",
    "FilesRendered",
    "FirstVisitDone",
    "Flow",
    "FlowRates",
    "ForeignTraffic",
    "GenerationDone",
    "GenerationFailed",
    "GenerationStarted",
    "GpuListed",
    "GradientPath",
    "HostKeyShown",
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
    "MachineListed",
    "MemoryEstimated",
    "MicroBatchHalved",
    "ModelLoaded",
    "NodeCut",
    "NodeGradients",
    "NodeLost",
    "NodeMemory",
    "NodeOut",
    "NodePortListed",
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
    "RestartChecked",
    "Resumed",
    "Resuming",
    "Retained",
    "Sampling",
    "SamplingGap",
    "SamplingResumed",
    "SharesChanged",
    "Stopped",
    "Submitted",
    "SwitchListed",
    "SwitchPortListed",
    "TextGenerated",
    "TextPiece",
    "TextSampled",
    "Times",
    "TrainingStarted",
    "TransportChosen",
    "TrialStarted",
    "WeightsFetched",
    "WeightsWritten",
    "all_events",
    "parse",
]

_MODULES = {kind: module for module, kinds in LISTED.items() for kind in kinds.values()} | dict(PARTS)

if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(kind: str) -> type:
        """Load a class when it is first used."""
        if kind not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {kind!r}")
        globals()[kind] = getattr(import_module(f"{__name__}.{_MODULES[kind]}"), kind)
        return globals()[kind]


def all_events() -> dict[str, type[Event]]:
    """Return every event by its name, in the order of the classes' names."""
    names = {kind: name for kinds in LISTED.values() for name, kind in kinds.items()}
    return {names[kind]: _event(names[kind]) for kind in sorted(names)}


def parse(name: str, *, subject: str, message: str, data: Mapping[str, Any], time: float) -> Event:
    """Return an event from its parts; raise ValueError if its name is not listed or its data does not fit."""
    fields = {**_event(name).fields_from(data), "subject": subject, "message": message, "time": time}
    return _adapter(name).validate_python(fields)


@cache
def _event(name: str) -> type[Event]:
    for module, kinds in LISTED.items():
        if name in kinds:
            event: type[Event] = getattr(import_module(f"{__name__}.{module}"), kinds[name])
            return event
    raise ValueError(f"there is no event {name!r}")


@cache
def _adapter(name: str) -> TypeAdapter[Event]:
    return TypeAdapter(_event(name))
