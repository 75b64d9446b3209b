"""Builds a run's evidence from a case file: counters and gauges generated from rates, steps and bursts.

A series is named by its words: device (`*` for every node), port, meter, part. Its value is a number, the rate per
second of a counter or the value of a gauge, or a mapping: `usual`, other rates by time (`60-80: 500`), `noise` (a
share), `missing` (a time or a list of times), `reset` (seconds), `begin` (the counter's first value). `cluster` names
the cluster file beside the cases: `one_rail`, or `two_rails` without RDMA. `silent` gives the times in which devices
are not sampled, `starts` the later starts of a run that was stopped in between. A mark may end with its generation; a
finding has its time `at`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import to_jsonable_python
from ruamel.yaml import YAML

from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.model.cluster import Cluster
from railbed.model.meters import METERS, MISSING, Meter, SeriesKey
from railbed.model.record import WRONG, Finding, Verdict
from railbed.rules.engine import judge
from railbed.rules.rule import Rule
from railbed.rules.site import Site
from railbed.store.series import Samples
from railbed.store.series.rates import Floats, Growth, growth, values_of
from railbed.store.timeline import Mark, Track
from railbed.store.timeline.timeline import with_gaps

CASES = Path(__file__).parent.parent / "cases" / "diagnose"
START = 1_790_000_000.0
SECONDS = 120
STEP_SECONDS = 0.5
INTERVALS = {"node": 1.0, "switch": 5.0}


class GeneratedTimeline:
    """A run in memory, with the interface of `Timeline` that rules use."""

    def __init__(self, case: Mapping[str, Any], cluster: Cluster) -> None:
        self.start = START
        self.end = START + case.get("seconds", SECONDS)
        self.unstored = case.get("unstored", "")
        self._cluster = cluster
        self._case = case
        self._series = dict(self._expand(case.get("series", {})))

    def _expand(self, specs: Mapping[str, Any]) -> Iterator[tuple[SeriesKey, Any]]:
        for text, spec in specs.items():
            words = str(text).split()
            meter = next(word for word in words if word in METERS)
            place = words.index(meter)
            names = list(self._cluster.nodes) if words[0] == "*" else words[0].split(",")
            for number, name in enumerate(names):
                part = str(number) if words[place + 1 :] == ["*"] else "".join(words[place + 1 :])
                yield SeriesKey(name, meter, "".join(words[1:place]), part), spec

    def series(self) -> Sequence[SeriesKey]:
        return list(self._series)

    def marks(self) -> Sequence[Mark]:
        marks = (Mark(START + at, *rest) for at, *rest in self._case.get("marks", []))
        return sorted(marks, key=lambda mark: mark.time)

    def findings(self) -> Sequence[Finding]:
        texts = {"verdict": Verdict.FAIL, "expected": "", "why": ""}
        findings = ({**texts, **finding} for finding in self._case.get("findings", []))
        return [
            Finding(time=START + finding.pop("at", 0.0), verdict=Verdict(finding.pop("verdict")), **finding)
            for finding in findings
        ]

    def starts(self) -> Sequence[float]:
        return [self.start, *(START + after for after in self._case.get("starts", []))]

    def growth(self, series: SeriesKey) -> Growth:
        return growth(self._samples(series))

    def track(self, series: SeriesKey) -> Track:
        meter, samples = METERS[series.meter], self._samples(series)
        values = values_of(meter, samples)
        if meter.kind == "gauge" and meter.of != "rank":
            return Track(series, meter, meter.unit, *with_gaps(samples.times, values))
        return Track(series, meter, meter.unit, samples.times, values)

    def _samples(self, series: SeriesKey) -> Samples:
        meter, spec = METERS[series.meter], self._series[series]
        spec = spec if isinstance(spec, dict) else {"usual": spec}
        times = self._times(series, meter)
        levels = _levels(times - START, spec)
        if "noise" in spec:
            chance = np.random.default_rng(sum("".join(series).encode()))
            levels = levels * (1 + spec["noise"] * chance.uniform(-1, 1, len(levels)))
        return Samples(START + (times - START), _samples(meter, times - START, levels, spec))

    def _times(self, series: SeriesKey, meter: Meter) -> Floats:
        """Return when a series has samples: not while its device is silent; steps not while training pauses."""
        if meter.of == "rank":
            every, quiet = self._case.get("step", STEP_SECONDS), self._case.get("pauses", [])
        else:
            kind = "switch" if series.device in self._cluster.switches else "node"
            every = self._case.get("interval", INTERVALS[kind])
            quiet = self._case.get("silent", {}).get(series.device, [])
        times: Floats = np.arange(0.0, self.end - START + every / 2, every)
        sampled: Floats = START + times[~_inside(times, quiet)]
        return sampled


def _samples(meter: Meter, times: Floats, levels: Floats, spec: Mapping[str, Any]) -> Any:
    """Return the numbers that a device would report."""
    if meter.kind == "gauge":
        values = np.round(levels / meter.scale).astype(np.int64) if meter.of != "rank" else levels
    else:
        growth = np.floor(np.cumsum(levels * np.diff(times, prepend=0.0)) + 1e-6)
        if "reset" in spec:
            after = times >= spec["reset"]
            growth[after] -= growth[after][0] + spec.get("begin", 0)
        values = (growth.astype(np.int64) + int(spec.get("begin", 0))) & ((1 << min(meter.bits, 63)) - 1)
    if "missing" in spec:
        values[_inside(times, spec["missing"])] = MISSING
    return values


def _levels(times: Floats, spec: Mapping[str, Any]) -> Floats:
    levels = np.full(len(times), float(spec.get("usual", 0.0)))
    for key, level in spec.items():
        if "-" in str(key):
            # A counter's rate at a time is that of the seconds before it.
            levels[_inside(times, [key])] = float(level)
    return levels


def _inside(times: Floats, spans: Any) -> Any:
    inside = np.zeros(len(times), np.bool_)
    for span in [spans] if isinstance(spans, str) else spans:
        first, last = (float(part) for part in str(span).split("-"))
        inside |= (times > first) & (times <= last)
    return inside


@cache
def load_case(path: Path) -> Any:
    """Return the content of a file, which nobody may change."""
    return YAML(typ="safe").load(path)


def cases_of(rule: str) -> list[Case]:
    """Return the cases of a rule, or of `together`."""
    return [read_case(path) for path in sorted((CASES / rule).glob("*.yaml"))]


def read_case(path: Path) -> Case:
    case = load_case(path)
    return Case(site_of(case), case["expect"])


class Case(NamedTuple):
    """A run, and the verdicts about it that are expected."""

    site: Site
    expected: list[dict[str, Any]]

    def judge(self, rules: Iterable[Rule[Any]] | None) -> list[Finding]:
        """Return what went wrong; if nothing did, what the chosen rules conclude."""
        findings = list(judge(DIAGNOSE_BOOK, self.site, rules))
        wrong = [finding for finding in findings if finding.verdict in WRONG]
        return wrong or ([] if rules is None else findings)

    def shown(self, findings: Sequence[Finding]) -> list[dict[str, Any]]:
        """Return of findings what is expected of them; times are seconds since the start of the run."""
        expected = [*self.expected, *({} for _ in findings[len(self.expected) :])]
        return [_shown(finding, wanted) for finding, wanted in zip(findings, expected, strict=False)]


def _shown(finding: Finding, wanted: Mapping[str, Any]) -> dict[str, Any]:
    plain = to_jsonable_python(finding)
    for key in ("since", "until"):
        plain[key] = None if plain[key] is None else round(plain[key] - START, 1)
    return {key: plain[key] for key in wanted or ("check", "subject", "verdict", "observed")}


def site_of(case: Mapping[str, Any]) -> Site:
    cluster = Cluster.model_validate(load_case(CASES / f"{case.get('cluster', 'one_rail')}.yaml"))
    return Site(cluster, timeline=GeneratedTimeline(case, cluster))
