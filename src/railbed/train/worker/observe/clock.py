"""The time of each part of a step. On a GPU the marks are events on its stream, read long after the step."""

from __future__ import annotations

import time

import torch


class StepTimer:
    """The parts of one step, in seconds: from mark to mark, each named after the part that ended there."""

    def __init__(self, device: torch.device, *, after: StepTimer | None = None) -> None:
        """Begin now, or where another timer ended: the time in between is the part `other`."""
        self._on_gpu = device.type == "cuda"
        self._marks: list[tuple[str, float | torch.cuda.Event]] = []
        if after is not None:
            self.mark("", after._marks[-1][1])  # noqa: SLF001 -- of its own kind
        self.mark("other")

    def now(self) -> float | torch.cuda.Event:
        """Return this moment."""
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def mark(self, name: str, moment: float | torch.cuda.Event | None = None) -> None:
        """End a part, now or at a moment taken before."""
        self._marks.append((name, self.now() if moment is None else moment))

    def wait(self) -> None:
        """Wait for the last mark, which a GPU may not have reached yet."""
        last = self._marks[-1][1]
        if isinstance(last, torch.cuda.Event):
            last.synchronize()

    def parts(self) -> dict[str, float]:
        """Return the sum of each part. On a GPU this waits for the last mark."""
        self.wait()
        sums: dict[str, float] = {}
        for (_, start), (name, end) in zip(self._marks, self._marks[1:], strict=False):
            sums[name] = sums.get(name, 0.0) + _between(start, end)
        return sums

    def total(self) -> float:
        """Return the time from the first mark to the last."""
        return _between(self._marks[0][1], self._marks[-1][1])


def _between(start: float | torch.cuda.Event, end: float | torch.cuda.Event) -> float:
    if isinstance(start, torch.cuda.Event) and isinstance(end, torch.cuda.Event):
        return float(start.elapsed_time(end)) / 1000
    assert isinstance(start, float)
    assert isinstance(end, float)
    return end - start
