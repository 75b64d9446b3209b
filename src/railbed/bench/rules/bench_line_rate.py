"""Paths deliver what their slowest part allows.

What
----
The best bandwidth of a path, of several sizes and repeats, is at least 96 % of its slowest part: the link at either
end, or its PCIe slot. Below 90 % it fails. TCP is judged with several streams only.

Why
---
A training step ends when the slowest link has sent its share: all ranks wait for it.

Fix
---
`railbed check` examines MTU, PFC, PCIe and cables at both ends.

Source
------
Thresholds of vendors and clouds for RDMA bandwidth; PCIe and Ethernet line rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from railbed.bench.book import BenchView
from railbed.bench.outliers import PathLimit, judge_bandwidth, slowest
from railbed.bench.paths import is_bidirectional, merge_directions, method_of
from railbed.bench.site import BenchSite
from railbed.model.record import Measurement
from railbed.model.text import number
from railbed.rules.judgement import Judgement, skip
from railbed.rules.rule import Rule

RDMA_BANDWIDTH = ("ib_write_bw", "ib_read_bw", "ib_send_bw")


def judge(view: BenchView) -> Iterator[Judgement]:
    """Judge what every port received in a trial by the slowest part of the path."""
    arrived: dict[tuple[str | int, ...], list[Measurement]] = {}
    for measurement in merge_directions(view.measurements):
        labels = measurement.labels
        if measurement.name == "bandwidth" and _can_fill_link(labels):
            identity = ("test", "size", "pattern", "rail", "to", "trial", "direction")
            key = tuple(labels[name] for name in identity if name in labels)
            arrived.setdefault(key, []).append(measurement)
    best: dict[tuple[str, str], tuple[float, list[Measurement]]] = {}
    for group in arrived.values():
        subject = _subject(view.site, group)
        total = sum(measurement.value for measurement in group)
        method = method_of(group[0].labels)
        # The best of several sizes and repeats shows what the path is capable of.
        if total > best.get((subject, method), (0.0, []))[0]:
            best[subject, method] = (total, group)
    for (subject, method), (total, group) in best.items():
        yield _line_rate(view.site, subject, method, total, group)


def _can_fill_link(labels: Mapping[str, str | int]) -> bool:
    """Whether a test should reach line rate: RDMA does with one queue pair, TCP only with several streams."""
    if labels.get("memory") == "gpu":
        return False
    return labels.get("test") in RDMA_BANDWIDTH or int(labels.get("streams", 1)) > 1


def _subject(site: BenchSite, group: Sequence[Measurement]) -> str:
    labels = group[0].labels
    target = site.port_on_rail(labels["to"], labels["rail"])
    if len(group) > 1:
        return target.end.name
    return f"{site.port_on_rail(labels['from'], labels['rail']).end.name} > {target.end.node}"


def _line_rate(site: BenchSite, subject: str, method: str, total: float, group: Sequence[Measurement]) -> Judgement:
    labels = group[0].labels
    ports = [site.port_on_rail(labels["to"], labels["rail"])]
    if len(group) == 1:
        ports.append(site.port_on_rail(labels["from"], labels["rail"]))
    limit = slowest(limit for port in ports for limit in port.limits)
    if limit is None or any(not port.limits for port in ports):
        reason = next(port.no_limit for port in ports if not port.limits)
        return skip(reason, subject=subject)
    if is_bidirectional(labels):
        limit = PathLimit(part=f"{limit.part}, both ways", gbps=2 * limit.gbps)
    return Judgement(
        verdict=judge_bandwidth(total, limit),
        subject=subject,
        expected=f"{limit.gbps:.4g} Gb/s: {limit.part} is the slowest part",
        observed=f"{number(total)} Gb/s, {total / limit.gbps:.0%} ({method})",
    )


RULE: Rule[BenchView] = Rule(
    name="bench_line_rate", title="bandwidth near line rate", scope="cluster", judge=judge, doc=__doc__
)
