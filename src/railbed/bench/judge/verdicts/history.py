"""Against before: the cluster's own baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from railbed.bench.judge import baseline as before
from railbed.bench.judge.verdicts.finding import finding
from railbed.model.amount import number
from railbed.model.record import Finding, Measurement, Verdict
from railbed.model.statistics import median

CHECK = "bench_baseline"
WHY = "Hardware that got slower says so here first."


def against_before(measurements: Iterable[Measurement], baseline: before.Baseline) -> Iterator[Finding]:
    """Judge every measurement by its baseline; those that are as before are told together."""
    same = new = 0
    for key, group in before.grouped(measurements).items():
        kept = baseline.measures.get(key)
        if kept is None:
            new += 1
            continue
        verdict, better = before.compared(group, kept)
        if verdict is Verdict.OK:
            same += 1
            continue
        labels = group[0].labels
        subject = f"{labels['from']} > {labels['to']}" if "from" in labels else str(labels.get("node", "cluster"))
        now = median([one.value for one in group])
        expected = f"{number(kept.middle)} {kept.unit} as in {baseline.run}"
        observed = f"{number(now)} {kept.unit}, {-better:.0%} worse ({labels.get('test')}{_size(labels.get('size'))})"
        yield finding(CHECK, subject, verdict, expected, observed, WHY)
    if same or new:
        observed = f"{same} as in {baseline.run}" + (f", {new} not in it" if new else "")
        yield finding(CHECK, "cluster", Verdict.OK if same else Verdict.SKIPPED, "", observed, WHY)


def _size(size: str | int | None) -> str:
    return f", {size} bytes" if size is not None else ""
