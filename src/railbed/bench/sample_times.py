"""How many samples of a latency test fit into the seconds of its step.

perftest ends after a number of samples: 5000 take milliseconds on a real fabric, and nine minutes between emulated
machines. How long one takes is learnt from comparable calls of the same run, or from a first call with a few samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from railbed.bench.exchange import Measured, NotMeasured
from railbed.bench.schedule import Transfer, Trial
from railbed.bench.tool import ToolResult

FEWEST = 5
"""perftest takes no fewer."""
ONE_PACKET = 4096
"""Messages up to this size take about as long as the smallest."""
Kind = tuple[str | int, ...]


class SampleTimes:
    """Seconds that a sample takes: on each path, and on the slowest path that was measured in the same way."""

    def __init__(self) -> None:
        self._by_path: dict[Kind, float] = {}
        self._slowest: dict[Kind, float] = {}
        self._unlike: set[Kind] = set()
        """Paths that did not end in time: other paths do not show how long theirs take."""

    def note(self, trial: Trial, flow: Transfer, outcome: Measured | NotMeasured) -> None:
        """Learn from the result of a call."""
        if not _is_unpaced(trial):
            return
        path = _path(trial, flow)
        if isinstance(outcome, NotMeasured):
            if outcome.retry:
                self._unlike.add(path)
        elif seconds := _seconds_per_sample(outcome.reading):
            kind = _kind(trial, flow)
            self._by_path[path] = seconds
            self._slowest[kind] = max(seconds, self._slowest.get(kind, 0.0))

    def fitting(self, trial: Trial, flows: Sequence[Transfer]) -> int | None:
        """Return how many samples each of these flows can take in the seconds of the step; None if that is unknown."""
        most = trial.step.samples
        if not _is_unpaced(trial):
            return most
        known = [self._seconds(trial, flow) for flow in flows]
        seconds = [each for each in known if each is not None]
        if len(seconds) < len(known):
            return None
        return max(FEWEST, min(most, *(int(trial.step.seconds / each) for each in seconds)))

    def _seconds(self, trial: Trial, flow: Transfer) -> float | None:
        path = _path(trial, flow)
        others = None if path in self._unlike else self._slowest.get(_kind(trial, flow))
        return self._by_path.get(path, others)


def _is_unpaced(trial: Trial) -> bool:
    return trial.tool.tests[trial.step.test].latency and trial.tool.interval is None


def _kind(trial: Trial, flow: Transfer) -> Kind:
    """Return what calls have in common whose samples take about as long: those of one program are all alike."""
    size = max(flow.call.settings.size or 0, ONE_PACKET)
    return trial.tool.name, trial.step.pattern, trial.step.rails, flow.source.rail, size, flow.call.settings.memory


def _path(trial: Trial, flow: Transfer) -> Kind:
    return *_kind(trial, flow), flow.source.node, flow.target.node


def _seconds_per_sample(reading: ToolResult) -> float:
    """Return the mean time of a sample, which is a round trip; 0 if the tool printed none."""
    if not reading.samples:
        return 0.0
    halved = any(value.name == "half_round_trip" for value in reading.values)
    return fsum(reading.samples) / len(reading.samples) * 1e-6 * (2 if halved else 1)
