"""Takes the samples of a device, and emits an event when they stop, when they arrive again, and when series change."""

from __future__ import annotations

from collections.abc import Callable

from railbed.errors import RailbedError
from railbed.model import events
from railbed.model.meters import Sample
from railbed.model.record import Event

Take = Callable[[Sample], None]
Emit = Callable[[Event], None]


class Intake:
    """The samples of one device."""

    def __init__(self, device: str, take: Take, emit: Emit) -> None:
        self.device = device
        self._take = take
        self._emit = emit
        self._last: float | None = None
        self._interrupted = False
        self._layout: object = None

    def add(self, sample: Sample, describe: Callable[[], Event]) -> bool:
        """Hand a sample on; `describe` returns the event for series that are new. False if it is not stored."""
        if not sample.layout:
            self.interrupt("it has no counters that railbed knows")
            return False
        try:
            self._take(sample)
        except RailbedError as error:
            self.interrupt(error.message)
            return False
        if self._interrupted:
            self._resume(sample.time)
        if sample.layout is not self._layout:
            self._layout = sample.layout
            self._emit(describe())
        self._last = sample.time
        return True

    def interrupt(self, why: str) -> None:
        """Report that no samples arrive, once for each gap."""
        if not self._interrupted:
            self._interrupted = True
            self._layout = None  # it is described again, since its clock may have changed as well
            self._emit(events.SamplingGap(subject=self.device, message=f"no samples: {why}", why=why, last=self._last))

    def _resume(self, time: float) -> None:
        self._interrupted = False
        seconds = max(0.0, time - self._last) if self._last is not None else 0.0
        message = f"sampled again, after {seconds:.1f} s without samples" if seconds else "sampled at last"
        self._emit(events.SamplingResumed(subject=self.device, message=message, seconds=seconds))
