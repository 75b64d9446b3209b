"""Against the hardware: what a link or its PCIe allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from railbed.bench.judge.limits import Limit, judge_bandwidth, slowest
from railbed.bench.judge.verdicts.finding import finding
from railbed.bench.judge.verdicts.paths import both_added_up, how, is_both
from railbed.bench.site import BenchSite
from railbed.model.amount import number
from railbed.model.record import Finding, Measurement, Verdict

CHECK = "bench_line_rate"
RDMA_BANDWIDTH = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
WHY = "A step of training ends when the slowest link has sent its share: what a link does not carry, all wait for."


def against_hardware(site: BenchSite, measurements: Iterable[Measurement]) -> Iterator[Finding]:
    """Judge what every port received in a trial by what the slowest part of the way allows."""
    arrived: dict[tuple[str | int, ...], list[Measurement]] = {}
    for one in both_added_up(measurements):
        if one.name == "bandwidth" and _has_full_rate(one):
            key = tuple(
                one.labels[name]
                for name in ("test", "size", "pattern", "rail", "to", "trial", "direction")
                if name in one.labels
            )
            arrived.setdefault(key, []).append(one)
    best: dict[tuple[str, str], tuple[float, list[Measurement]]] = {}
    for group in arrived.values():
        subject = _subject(site, group)
        total = sum(one.value for one in group)
        what = how(group[0].labels)
        # Of several sizes and repeats the best tells what the way can do.
        if total > best.get((subject, what), (0.0, []))[0]:
            best[subject, what] = (total, group)
    for (subject, what), (total, group) in best.items():
        yield _line_rate(site, subject, what, total, group)


def _has_full_rate(one: Measurement) -> bool:
    """RDMA can fill a link with one queue pair; TCP is judged with several streams only."""
    if one.labels.get("memory") == "gpu":
        return False
    return one.labels.get("test") in RDMA_BANDWIDTH or int(one.labels.get("streams", 1)) > 1


def _subject(site: BenchSite, group: Sequence[Measurement]) -> str:
    labels = group[0].labels
    target = site.port_on_rail(labels["to"], labels["rail"])
    if len(group) > 1:
        return target.end.name
    return f"{site.port_on_rail(labels['from'], labels['rail']).end.name} > {target.end.node}"


def _line_rate(site: BenchSite, subject: str, what: str, total: float, group: Sequence[Measurement]) -> Finding:
    labels = group[0].labels
    ports = [site.port_on_rail(labels["to"], labels["rail"])]
    if len(group) == 1:
        ports.append(site.port_on_rail(labels["from"], labels["rail"]))
    limit = slowest(limit for port in ports for limit in port.limits)
    if limit is None or any(not port.limits for port in ports):
        reason = next(port.no_limit for port in ports if not port.limits)
        return finding(CHECK, subject, Verdict.SKIPPED, "", reason, WHY)
    if is_both(labels):
        limit = Limit(part=f"{limit.part}, both ways", gbps=2 * limit.gbps)
    return finding(
        CHECK,
        subject,
        judge_bandwidth(total, limit),
        f"{limit.gbps:.4g} Gb/s: {limit.part} is the slowest part",
        f"{number(total)} Gb/s, {total / limit.gbps:.0%} ({what})",
        WHY,
        remedy="`railbed check` looks at MTU, PFC, PCIe and cables of both ends",
    )
