"""Trial results as records: measurements with the labels that identify them, and findings for what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from railbed.bench.measure.exchange import Measured, NotMeasured
from railbed.bench.measure.schedule import Flow, Omitted, Trial
from railbed.model.record import Finding, Measurement, Verdict

MEASURED = "bench_measured"
WHY = "A link that was not measured may be the one that slows down all the others."


def measurements(trial: Trial, flow: Flow, measured: Measured) -> Iterator[Measurement]:
    """Yield the numbers of a flow."""
    labels = labels_of(trial, flow, measured)
    for value in measured.reading.values:
        own = dict(value.labels)
        direction = own.pop("direction", None)
        ends = _reversed(labels) if direction == "backward" else labels
        yield Measurement(name=value.name, value=value.value, unit=value.unit, labels={**ends, **own})
    if count := len(measured.reading.samples):
        yield Measurement(name="samples", value=count, unit="1", labels=labels)
    sides = (("client", measured.client), ("server", measured.server))
    for side, wrapped in sides:
        if wrapped is None or wrapped.cpu_seconds is None:
            continue
        node = getattr(flow.call, side).node
        yield Measurement(name="cpu_seconds", value=wrapped.cpu_seconds, unit="s", labels={**labels, "node": node})
        moved = sum(value.value for value in measured.reading.values if value.name == "bandwidth") / 8
        if moved > 0 and len(trial.flows) == 1:
            cost = wrapped.cpu_seconds / (moved * flow.call.settings.seconds)
            yield Measurement(name="cpu_seconds_per_gb", value=cost, unit="s/GB", labels={**labels, "node": node})


def labels_of(trial: Trial, flow: Flow, measured: Measured | None = None) -> dict[str, str | int]:
    """Return the labels that identify a measurement of a flow."""
    settings = flow.call.settings
    labels: dict[str, str | int] = {
        "tool": trial.tool.name,
        "test": trial.step.test,
        "trial": trial.number,
        "repeat": trial.repeat,
    }
    version = measured and (measured.reading.version or measured.client.version)
    if version:
        labels["version"] = version.replace("Version:", trial.tool.name)
    if settings.size is not None:
        labels["size"] = settings.size
    if trial.tool.scope == "node":
        return {**labels, "node": flow.source.node}
    first, second = (flow.source, flow.target) if flow.forward else (flow.target, flow.source)
    labels |= {
        "pattern": trial.step.pattern if trial.step.rails == "each" else f"{trial.step.pattern}, all rails",
        "pair": f"{first.node}-{second.node}",
        "direction": "both" if settings.both else "forward" if flow.forward else "backward",
        "from": flow.source.node,
        "to": flow.target.node,
        "rail": flow.source.rail,
        "streams": settings.streams,
        "memory": settings.memory,
    }
    if settings.traffic_class is not None:
        labels["traffic_class"] = settings.traffic_class
    return labels


def _reversed(labels: dict[str, str | int]) -> dict[str, str | int]:
    """Return the labels of the opposite direction of a bidirectional flow."""
    return {**labels, "from": labels["to"], "to": labels["from"]}


def subject_of(trial: Trial, flow: Flow) -> str:
    """Return the pair, or the node, that a finding about a flow is about."""
    if trial.tool.scope == "node":
        return flow.source.node
    return f"{flow.source.node}/{flow.source.netdev} > {flow.target.node}"


def not_measured_finding(trial: Trial, flow: Flow, failure: NotMeasured) -> Finding:
    """Return the finding for a flow without a number: unknown if its node or program is missing, else failed."""
    unknown = failure.lost or failure.missing or failure.retry
    return Finding(
        check=MEASURED,
        subject=subject_of(trial, flow),
        verdict=Verdict.UNKNOWN if unknown else Verdict.FAIL,
        expected=f"a measurement by {trial.step.test}",
        observed=failure.reason,
        why=WHY,
        remedy=failure.remedy,
        evidence=failure.evidence,
    )


def measured_findings(tests: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding for every pair or node that was measured, naming the tests."""
    for subject, names in tests.items():
        yield Finding(
            check=MEASURED,
            subject=subject,
            verdict=Verdict.OK,
            expected="measurements",
            observed=", ".join(dict.fromkeys(names)),
            why=WHY,
        )


def omitted_finding(omitted: Omitted) -> Finding:
    """Return the finding for a test that cannot run here."""
    return Finding(
        check=MEASURED,
        subject=omitted.subject,
        verdict=omitted.verdict,
        expected=f"a measurement by {omitted.test}",
        observed=f"{omitted.test}: {omitted.reason}" if omitted.verdict is not Verdict.SKIPPED else omitted.reason,
        why=WHY,
    )


def not_undone_finding(node: str, arm: str, reason: str, remedy: str) -> Finding:
    """Return the finding for a node on which an arm's change may still be in effect."""
    return Finding(
        check="bench_undone",
        subject=node,
        verdict=Verdict.FAIL,
        expected=f"as it was before {arm}",
        observed=f"the change may still be in effect: {reason}",
        why="A leftover change distorts later measurements, and the next arm would take it for the original state.",
        remedy=remedy,
    )


def unreachable_finding(node: str, reason: str) -> Finding:
    """Return the finding for a node that does not answer."""
    return Finding(
        check="reachable",
        subject=node,
        verdict=Verdict.FAIL,
        expected="answers",
        observed=reason,
        why="A node that does not answer cannot train, and its links cannot be measured.",
    )
