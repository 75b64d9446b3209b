"""Judge measurements by the cluster's own baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from railbed.bench.judge.baseline import Baseline, compare, group_repeats
from railbed.bench.judge.verdicts.finding import finding
from railbed.model.record import Finding, Measurement, Verdict
from railbed.model.statistics import median
from railbed.model.text.amount import number

CHECK = "bench_baseline"
WHY = "Hardware that is getting slower shows here first."


def against_baseline(measurements: Iterable[Measurement], before: Baseline) -> Iterator[Finding]:
    """Report every measurement that got worse, and count the others."""
    same = new = 0
    for key, group in group_repeats(measurements).items():
        saved = before.measures.get(key)
        if saved is None:
            new += 1
            continue
        verdict, better = compare(group, saved)
        if verdict is Verdict.OK:
            same += 1
            continue
        labels = group[0].labels
        subject = f"{labels['from']} > {labels['to']}" if "from" in labels else str(labels.get("node", "cluster"))
        now = median([repeat.value for repeat in group])
        expected = f"{number(saved.middle)} {saved.unit} as in {before.run}"
        observed = f"{number(now)} {saved.unit}, {-better:.0%} worse ({labels.get('test')}{_size(labels.get('size'))})"
        yield finding(CHECK, subject, verdict, expected, observed, WHY)
    if same or new:
        observed = f"{same} as in {before.run}" + (f", {new} not in it" if new else "")
        yield finding(CHECK, "cluster", Verdict.OK if same else Verdict.SKIPPED, "", observed, WHY)


def _size(size: str | int | None) -> str:
    return f", {size} bytes" if size is not None else ""
