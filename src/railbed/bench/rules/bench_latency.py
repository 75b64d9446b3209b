"""Small messages take no longer than published for the card.

What
----
Half a round trip of an RDMA write or send of at most 64 bytes takes at most 2.5 µs over a cable and 5 µs through a
switch; a read, a full round trip, 1.8 times as long. Cards for which no latency is published are skipped.

Why
---
Every collective starts with small messages, and cable and cards set how long those take.

Fix
---
Look at the processor frequency and power saving of both ends (`railbed check governor pcie_bandwidth`), and measure
again when nothing else runs there. Save numbers that are usual here with `--save-baseline`, to judge later runs by.

Source
------
Published latencies of ConnectX-4 and later, by perftest.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.bench import baseline
from railbed.bench.book import BenchView
from railbed.bench.outliers import PUBLISHED_DRIVER, latency_limit
from railbed.model.record import Verdict
from railbed.model.statistics import median
from railbed.model.text import number
from railbed.rules.judgement import Judgement, skip
from railbed.rules.rule import Rule


def judge(view: BenchView) -> Iterator[Judgement]:
    """Judge RDMA latencies of small messages by published values."""
    site = view.site
    for group in baseline.group_repeats(view.measurements).values():
        labels = group[0].labels
        is_small = int(labels.get("size", 0)) <= 64
        if labels.get("tool") != "perftest" or not group[0].name.endswith("round_trip") or not is_small:
            continue
        ports = [site.port_on_rail(labels[end], labels["rail"]) for end in ("from", "to")]
        subject = f"{ports[0].end.name} > {ports[1].end.node}"
        value = median([repeat.value for repeat in group])
        if any(port.driver != PUBLISHED_DRIVER for port in ports):
            reason = "no latency is published for this card: compare with its own history (--save-baseline)"
            yield skip(reason, subject=subject)
            continue
        direct = site.cluster.rails[str(labels["rail"])].point_to_point
        limit = latency_limit(direct=direct, full_round_trip=group[0].name == "round_trip")
        way = "over a cable" if direct else "through a switch"
        verdict = Verdict.FAIL if value > limit else Verdict.OK
        observed = f"{number(value)} µs ({labels['test']})"
        expected = f"at most {limit:g} µs {way}"
        yield Judgement(verdict=verdict, subject=subject, expected=expected, observed=observed)


RULE: Rule[BenchView] = Rule(
    name="bench_latency", title="latencies as published for the card", scope="cluster", judge=judge, doc=__doc__
)
