"""All judgements of a run's measurements, as findings: against the hardware, against the others, against before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from railbed.bench import baseline as before
from railbed.bench.limits import YOUNG, Limit, judge_bandwidth, latency_limit, slowest
from railbed.bench.outliers import Outlier, Sample, find_outliers
from railbed.bench.site import BenchSite, PortSite
from railbed.bench.statistics import median
from railbed.model.amount import number
from railbed.model.record import Finding, Measurement, Verdict

LINE_RATE, LATENCY, OUTLIER, BASELINE = "bench_line_rate", "bench_latency", "bench_outlier", "bench_baseline"
RDMA_BANDWIDTH = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
OWN_LINKS = ("pair", "matrix", "rounds", "ring")
"""Patterns in which no two flows share a port in one direction: only those can be compared with each other."""
WHY_RATE = "A step of training ends when the slowest link has sent its share: what a link does not carry, all wait for."
WHY_LATENCY = "Small messages, as at the start of every collective, take as long as the wire and the cards."
WHY_OUTLIER = "One slow port slows every collective that passes it, and nothing but a comparison shows it."
WHY_BASELINE = "Hardware that got slower says so here first."


def all_verdicts(
    site: BenchSite, measurements: Sequence[Measurement], baseline: before.Baseline | None
) -> Iterator[Finding]:
    """Yield every judgement."""
    yield from against_hardware(site, measurements)
    yield from against_latency(site, measurements)
    yield from against_others(site, measurements)
    if baseline:
        yield from against_before(measurements, baseline)


def against_hardware(site: BenchSite, measurements: Iterable[Measurement]) -> Iterator[Finding]:
    """Judge what every port received in a trial by what the slowest part of the way allows."""
    arrived: dict[tuple[str | int, ...], list[Measurement]] = {}
    for one in _both_added_up(measurements):
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
        what = _how(group[0].labels)
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


def _is_both(labels: Mapping[str, str | int]) -> bool:
    """Whether both ways of a link were filled at the same time: that compares with its like only."""
    return labels.get("direction") == "both"


def _how(labels: Mapping[str, str | int]) -> str:
    """Return how something was measured, in short: `iperf3 x8, rounds, both ways`."""
    streams = int(labels.get("streams", 1))
    many = f" x{streams}" if streams > 1 else ""
    return f"{labels['test']}{many}, {labels['pattern']}{', both ways' if _is_both(labels) else ''}"


def _both_added_up(measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    """Yield all measurements, both ways of a trial as one: how two ways share a processor is no matter of a cable.

    perftest adds them up itself, iperf3 does not.
    """
    together: dict[tuple[str | int | None, ...], list[Measurement]] = {}
    for one in measurements:
        if one.name == "bandwidth" and _is_both(one.labels):
            key = tuple(one.labels.get(name) for name in ("trial", "pair", "rail"))
            together.setdefault(key, []).append(one)
        else:
            yield one
    for group in together.values():
        yield replace(group[0], value=sum(one.value for one in group))


def _subject(site: BenchSite, group: Sequence[Measurement]) -> str:
    labels = group[0].labels
    target = _port(site, labels["to"], labels["rail"])
    if len(group) > 1:
        return target.end.name
    return f"{_port(site, labels['from'], labels['rail']).end.name} > {target.end.node}"


def _line_rate(site: BenchSite, subject: str, what: str, total: float, group: Sequence[Measurement]) -> Finding:
    labels = group[0].labels
    ports = [_port(site, labels["to"], labels["rail"])]
    if len(group) == 1:
        ports.append(_port(site, labels["from"], labels["rail"]))
    limit = slowest(limit for port in ports for limit in port.limits)
    if limit is None or any(not port.limits for port in ports):
        reason = next(port.no_limit for port in ports if not port.limits)
        return _finding(LINE_RATE, subject, Verdict.SKIPPED, "", reason, WHY_RATE)
    if _is_both(labels):
        limit = Limit(part=f"{limit.part}, both ways", gbps=2 * limit.gbps)
    return _finding(
        LINE_RATE,
        subject,
        judge_bandwidth(total, limit),
        f"{limit.gbps:.4g} Gb/s: {limit.part} is the slowest part",
        f"{number(total)} Gb/s, {total / limit.gbps:.0%} ({what})",
        WHY_RATE,
        remedy="`railbed check` looks at MTU, PFC, PCIe and cables of both ends",
    )


def against_latency(site: BenchSite, measurements: Iterable[Measurement]) -> Iterator[Finding]:
    """Judge RDMA latencies of small messages by what is published for cards of their kind."""
    for group in before.grouped(measurements).values():
        labels = group[0].labels
        is_small = int(labels.get("size", 0)) <= 64
        if labels.get("tool") != "perftest" or not group[0].name.endswith("round_trip") or not is_small:
            continue
        ports = [_port(site, labels[end], labels["rail"]) for end in ("from", "to")]
        subject = f"{ports[0].end.name} > {ports[1].end.node}"
        value = median([one.value for one in group])
        if any(port.driver != YOUNG for port in ports):
            reason = "no latency is published for this card: `--save-baseline` keeps its own"
            yield _finding(LATENCY, subject, Verdict.SKIPPED, "", reason, WHY_LATENCY)
            continue
        direct = site.cluster.rails[str(labels["rail"])].point_to_point
        limit = latency_limit(direct=direct, whole=group[0].name == "round_trip")
        way = "over a cable" if direct else "through a switch"
        verdict = Verdict.FAIL if value > limit else Verdict.OK
        observed = f"{number(value)} µs ({labels['test']})"
        yield _finding(LATENCY, subject, verdict, f"at most {limit:g} µs {way}", observed, WHY_LATENCY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Ways that were measured in the same manner, and what lags behind among them."""

    how: str
    unit: str
    samples: Sequence[Sample]
    outliers: Sequence[Outlier]


def alike_ways(measurements: Iterable[Measurement]) -> Iterator[Alike]:
    """Yield the measurements that can be compared with each other, compared."""
    measured = list(_both_added_up(measurements))
    best: dict[str, float] = {}
    for one in measured:
        if one.labels.get("stat") == "min":
            best[before.key_of(one)] = min(one.value, best.get(before.key_of(one), one.value))
    alike: dict[tuple[str, ...], list[list[Measurement]]] = {}
    for group in before.grouped(measured).values():
        one = group[0]
        apart = str(one.labels.get("pattern", "")).startswith(OWN_LINKS)
        if apart and one.name in ("bandwidth", "half_round_trip", "round_trip"):
            names = ("test", "size", "pattern", "streams", "memory")
            key = (one.name, *(str(one.labels.get(name, "")) for name in names), str(_is_both(one.labels)))
            alike.setdefault(key, []).append(group)
    for key, groups in alike.items():
        samples = [_sample(group, best.get(before.key_of(group[0], "min"))) for group in groups]
        found = find_outliers(samples, higher_is_better=before.higher_is_better(key[0]) is True)
        yield Alike(how=_how(groups[0][0].labels), unit=groups[0][0].unit, samples=samples, outliers=found)


def against_others(site: BenchSite, measurements: Iterable[Measurement]) -> Iterator[Finding]:
    """Name what lags behind its like."""
    for alike in alike_ways(measurements):
        for outlier in alike.outliers:
            yield _outlier(site, outlier, alike.how, alike.unit)
        if not alike.outliers and len(alike.samples) >= 3:
            values = [sample.value for sample in alike.samples]
            observed = (
                f"{alike.how}: {number(min(values))} to {number(max(values))} {alike.unit} over {len(values)} ways"
            )
            yield _finding(OUTLIER, "cluster", Verdict.OK, "ways that are alike", observed, WHY_OUTLIER)


def _sample(group: Sequence[Measurement], best: float | None) -> Sample:
    labels = group[0].labels
    source, target, rail = (str(labels[name]) for name in ("from", "to", "rail"))
    value, trials = median([one.value for one in group]), tuple(int(one.labels["trial"]) for one in group)
    return Sample(source=source, target=target, rail=rail, value=value, best=best, trials=trials)


def _outlier(site: BenchSite, outlier: Outlier, how: str, unit: str) -> Finding:
    value = median([sample.value for sample in outlier.samples])
    subject, cable = _blamed(site, outlier)
    what = {"sends": "sends", "receives": "receives"}.get(outlier.kind, "does")
    return _finding(
        OUTLIER,
        subject,
        # One way alone may have met a busy moment; what all ways of a port or rail do is no chance.
        Verdict.WARN if outlier.kind == "pair" else Verdict.FAIL,
        f"{number(outlier.usual)} {unit} as the others ({how})",
        f"{what} {number(value)} {unit} in {_ways(outlier.samples)}",
        WHY_OUTLIER,
        remedy=_advice(outlier, cable),
        evidence="\n".join(
            f"{one.source} > {one.target} on {one.rail}: {number(one.value, 6)} {unit}" for one in outlier.samples
        ),
    )


def _ways(samples: Sequence[Sample]) -> str:
    """Return how many ways there were, and how often each was measured where that was more than once."""
    ways, each = (f"{len(samples)} ways", " each") if len(samples) > 1 else ("one way", "")
    times = min(len(sample.trials) for sample in samples)
    return f"{ways}, the middle of {times} measurements{each}" if times > 1 else ways


def _blamed(site: BenchSite, outlier: Outlier) -> tuple[str, str]:
    """Return the subject of a finding, and the cable that is to be looked at."""
    if outlier.kind in ("port", "sends", "receives"):
        node, _, rail = outlier.name.partition("/")
        port = _port(site, node, rail)
        return port.end.name, port.cable
    if outlier.kind == "pair":
        one = outlier.samples[0]
        port = _port(site, one.source, one.rail)
        return f"{port.end.name} > {one.target}", port.cable
    return outlier.name, ""


def _advice(outlier: Outlier, cable: str) -> str:
    if outlier.kind == "rail":
        return f"look at the switch of {outlier.name}: its speed, its queues, its uplinks"
    if outlier.kind == "node":
        return f"look at {outlier.name}: PCIe, processor frequency, what else runs there"
    to = f" to {cable}" if cable else ""
    return f"look at the cable{to} and its transceivers, then at the card: `railbed check` reads its error counters"


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
        yield _finding(BASELINE, subject, verdict, expected, observed, WHY_BASELINE)
    if same or new:
        observed = f"{same} as in {baseline.run}" + (f", {new} not in it" if new else "")
        yield _finding(BASELINE, "cluster", Verdict.OK if same else Verdict.SKIPPED, "", observed, WHY_BASELINE)


def _size(size: str | int | None) -> str:
    return f", {size} bytes" if size is not None else ""


def _port(site: BenchSite, node: str | int, rail: str | int) -> PortSite:
    return next(port for port in site.on(str(rail)) if port.end.node == node)


def _finding(  # noqa: PLR0917  (the fields of a finding, in their order)
    check: str,
    subject: str,
    verdict: Verdict,
    expected: str,
    observed: str,
    why: str,
    *,
    remedy: str = "",
    evidence: str = "",
) -> Finding:
    wanted = remedy if verdict in (Verdict.FAIL, Verdict.WARN) else ""
    return Finding(
        check=check,
        subject=subject,
        verdict=verdict,
        expected=expected,
        observed=observed,
        why=why,
        remedy=wanted,
        evidence=evidence,
    )
