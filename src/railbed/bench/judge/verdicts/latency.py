"""Judge latencies by published values for cards of the same kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from railbed.bench.judge import baseline
from railbed.bench.judge.limits import PUBLISHED_DRIVER, latency_limit
from railbed.bench.judge.verdicts.finding import finding
from railbed.bench.site import BenchSite
from railbed.model.record import Finding, Measurement, Verdict
from railbed.model.statistics import median
from railbed.model.text.amount import number

CHECK = "bench_latency"
WHY = "Every collective starts with small messages, and cable and cards set how long those take."


def against_latency(site: BenchSite, measurements: Iterable[Measurement]) -> Iterator[Finding]:
    """Judge RDMA latencies of small messages by published values."""
    for group in baseline.group_repeats(measurements).values():
        labels = group[0].labels
        is_small = int(labels.get("size", 0)) <= 64
        if labels.get("tool") != "perftest" or not group[0].name.endswith("round_trip") or not is_small:
            continue
        ports = [site.port_on_rail(labels[end], labels["rail"]) for end in ("from", "to")]
        subject = f"{ports[0].end.name} > {ports[1].end.node}"
        value = median([repeat.value for repeat in group])
        if any(port.driver != PUBLISHED_DRIVER for port in ports):
            reason = "no latency is published for this card: compare with its own history (--save-baseline)"
            yield finding(CHECK, subject, Verdict.SKIPPED, "", reason, WHY)
            continue
        direct = site.cluster.rails[str(labels["rail"])].point_to_point
        limit = latency_limit(direct=direct, full_round_trip=group[0].name == "round_trip")
        way = "over a cable" if direct else "through a switch"
        verdict = Verdict.FAIL if value > limit else Verdict.OK
        observed = f"{number(value)} µs ({labels['test']})"
        yield finding(CHECK, subject, verdict, f"at most {limit:g} µs {way}", observed, WHY)
