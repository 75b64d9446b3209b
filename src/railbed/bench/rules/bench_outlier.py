"""Paths that can be compared perform alike.

What
----
Paths that were measured in the same way, over ports that no other flow used, deliver about the same: none lags more
than 15 % behind the others, by a gap that is also wider than the spread of the good ones. A suspicion based on fewer
than four measurements is verified: each path is measured until it has three, and their median counts.

Why
---
One slow port slows down every collective that uses it, and only a comparison reveals it.

Fix
---
If a port or pair lags, inspect the cable and its transceivers, then the card; if a whole node does, its PCIe, processor
frequency and other processes; if a rail does, its switch: port speeds, queues, uplinks. `railbed check` reads the
error counters.

Source
------
railbed, `bench/outliers.py`: what several slow paths have in common is to blame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from railbed.bench.book import BenchView
from railbed.bench.outliers import Outlier, PathSample
from railbed.bench.paths import ComparablePaths, comparable_paths
from railbed.bench.site import BenchSite
from railbed.model.record import Verdict
from railbed.model.statistics import median
from railbed.model.text import number, plural
from railbed.rules.judgement import Judgement, ok
from railbed.rules.rule import Rule


def judge(view: BenchView) -> Iterator[Judgement]:
    """Report what lags behind comparable paths."""
    for group in comparable_paths(view.measurements):
        for outlier in group.outliers:
            yield _outlier(view.site, outlier, group)
        if not group.outliers and len(group.samples) >= 3:
            values = [sample.value for sample in group.samples]
            interval = f"{number(min(values))} to {number(max(values))} {group.unit}"
            observed = f"{group.method}: {interval} over {len(values)} paths"
            yield ok(expected="paths that perform alike", observed=observed)


def _outlier(site: BenchSite, outlier: Outlier, group: ComparablePaths) -> Judgement:
    value = median([sample.value for sample in outlier.samples])
    subject, cable = _suspect(site, outlier)
    unit = group.unit
    verb = "takes" if unit == "µs" else outlier.kind if outlier.kind in ("sends", "receives") else "delivers"
    slowest_first = sorted(outlier.samples, key=lambda sample: -abs(math.log(sample.value / outlier.usual)))
    return Judgement(
        subject=subject,
        # A single path may have been measured at a busy moment; all paths of a port or rail are no coincidence.
        verdict=Verdict.WARN if outlier.kind == "pair" else Verdict.FAIL,
        expected=f"{number(outlier.usual)} {unit} like the others ({group.method})",
        observed=f"{_describe_paths(slowest_first)}: {verb} {number(value)} {unit}{_describe_repeats(outlier.samples)}",
        remedy=_remedy(outlier, cable),
        evidence="\n".join(f"{_link(sample)}: {number(sample.value, 6)} {unit}" for sample in slowest_first),
    )


def _link(sample: PathSample) -> str:
    return f"{sample.source} → {sample.target} {sample.rail}"


def _describe_paths(samples: Sequence[PathSample]) -> str:
    """Return the first path by its ends, and how many others there are."""
    others = f" and {plural(len(samples) - 1, 'other path')}" if len(samples) > 1 else ""
    return f"{_link(samples[0])}{others}"


def _describe_repeats(samples: Sequence[PathSample]) -> str:
    """Return what the value is a median of: paths, or measurements if each path has several."""
    times = min(len(sample.trials) for sample in samples)
    if times > 1:
        return f", the median of {times} measurements{' each' if len(samples) > 1 else ''}"
    return f", the median of {len(samples)} paths" if len(samples) > 1 else ""


def _suspect(site: BenchSite, outlier: Outlier) -> tuple[str, str]:
    """Return the subject of a finding, and the cable to inspect."""
    if outlier.kind in ("port", "sends", "receives"):
        node, _, rail = outlier.name.partition("/")
        port = site.port_on_rail(node, rail)
        return port.end.name, port.cable
    if outlier.kind == "pair":
        sample = outlier.samples[0]
        port = site.port_on_rail(sample.source, sample.rail)
        return f"{port.end.name} > {sample.target}", port.cable
    return outlier.name, ""


def _remedy(outlier: Outlier, cable: str) -> str:
    if outlier.kind == "rail":
        return f"inspect the switch of {outlier.name}: port speeds, queues, uplinks"
    if outlier.kind == "node":
        return f"inspect {outlier.name}: PCIe, processor frequency, other processes"
    to = f" to {cable}" if cable else ""
    return f"inspect the cable{to} and its transceivers, then the card: `railbed check` reads its error counters"


RULE: Rule[BenchView] = Rule(
    name="bench_outlier", title="paths that perform alike", scope="cluster", judge=judge, doc=__doc__
)
