"""Measurements are as good as in the saved baseline.

What
----
No number is 10 % worse than the one saved by `--save-baseline`, beyond the spread of the repeats; from 5 % it warns.
Numbers that the baseline does not have are counted.

Why
---
Hardware that is getting slower shows here first.

Fix
---
Measure again when nothing else runs; then compare `railbed check` with that of the earlier run, and inspect the cable,
the card and its slot. If the change was intended, save the numbers with `railbed bench --save-baseline`.

Source
------
railbed, `bench/baseline.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.bench.baseline import compare, group_repeats
from railbed.bench.book import BenchView
from railbed.model.record import Verdict
from railbed.model.statistics import median
from railbed.model.text import number
from railbed.rules.judgement import Judgement
from railbed.rules.rule import Rule


def judge(view: BenchView) -> Iterator[Judgement]:
    """Report every measurement that got worse, and count the others."""
    before, same, new = view.baseline, 0, 0
    if before is None:
        return
    for key, group in group_repeats(view.measurements).items():
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
        yield Judgement(verdict=verdict, subject=subject, expected=expected, observed=observed)
    if same or new:
        observed = f"{same} as in {before.run}" + (f", {new} not in it" if new else "")
        yield Judgement(verdict=Verdict.OK if same else Verdict.SKIPPED, observed=observed)


def _size(size: str | int | None) -> str:
    return f", {size} bytes" if size is not None else ""


RULE: Rule[BenchView] = Rule(
    name="bench_baseline", title="as good as the saved baseline", scope="cluster", judge=judge, doc=__doc__
)
