"""What came of a trial, as records: measurements with all that tells them apart, findings for what was not measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from railbed.bench.measure.exchange import Measured, NotMeasured
from railbed.bench.measure.schedule import Flow, Omitted, Trial
from railbed.model.record import Finding, Measurement, Verdict

MEASURED = "bench_measured"
WHY = "What is not measured is not known: it may be the one link that slows the others down."


def measurements(trial: Trial, flow: Flow, measured: Measured) -> Iterator[Measurement]:
    """Yield the numbers of a flow."""
    labels = labels_of(trial, flow, measured)
    for value in measured.reading.values:
        own = dict(value.labels)
        way = own.pop("direction", None)
        ends = _turned(labels) if way == "backward" else labels
        yield Measurement(name=value.name, value=value.value, unit=value.unit, labels={**ends, **own})
    sides = (("client", measured.client), ("server", measured.server))
    for side, told in sides:
        if told is None or told.cpu_seconds is None:
            continue
        node = getattr(flow.call, side).node
        yield Measurement(name="cpu_seconds", value=told.cpu_seconds, unit="s", labels={**labels, "node": node})
        moved = sum(value.value for value in measured.reading.values if value.name == "bandwidth") / 8
        if moved > 0 and len(trial.flows) == 1:
            cost = told.cpu_seconds / (moved * flow.call.settings.seconds)
            yield Measurement(name="cpu_seconds_per_gb", value=cost, unit="s/GB", labels={**labels, "node": node})


def labels_of(trial: Trial, flow: Flow, measured: Measured | None = None) -> dict[str, str | int]:
    """Return what tells a measurement of a flow from all others."""
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


def _turned(labels: dict[str, str | int]) -> dict[str, str | int]:
    """Return the labels of the way back of a flow that went both ways."""
    return {**labels, "from": labels["to"], "to": labels["from"]}


def subject_of(trial: Trial, flow: Flow) -> str:
    """Return the pair, or the node, that a finding about a flow concerns."""
    if trial.tool.scope == "node":
        return flow.source.node
    return f"{flow.source.node}/{flow.source.netdev} > {flow.target.node}"


def not_measured(trial: Trial, flow: Flow, why: NotMeasured) -> Finding:
    """Return the finding for a flow without a number: a node or program that is not there leaves it unknown."""
    unknown = why.lost or why.missing or why.retry
    return Finding(
        check=MEASURED,
        subject=subject_of(trial, flow),
        verdict=Verdict.UNKNOWN if unknown else Verdict.FAIL,
        expected=f"a measurement by {trial.step.test}",
        observed=why.reason,
        why=WHY,
        remedy=why.remedy,
        evidence=why.evidence,
    )


def were_measured(tests: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding for every pair or node that was measured, with the tests that it was measured by."""
    for subject, names in tests.items():
        yield Finding(
            check=MEASURED,
            subject=subject,
            verdict=Verdict.OK,
            expected="measurements",
            observed=", ".join(dict.fromkeys(names)),
            why=WHY,
        )


def left_out(omitted: Omitted) -> Finding:
    """Return the finding for what cannot be measured here."""
    return Finding(
        check=MEASURED,
        subject=omitted.subject,
        verdict=omitted.verdict,
        expected=f"a measurement by {omitted.test}",
        observed=f"{omitted.test}: {omitted.reason}" if omitted.verdict is not Verdict.SKIPPED else omitted.reason,
        why=WHY,
    )


def not_undone(node: str, arm: str, why: str, remedy: str) -> Finding:
    """Return the finding for a node that may still be as an arm made it."""
    return Finding(
        check="bench_undone",
        subject=node,
        verdict=Verdict.FAIL,
        expected=f"as it was before {arm}",
        observed=f"the change was not seen undone: {why}",
        why="A change that stays is met by all that runs next, and the next arm takes it for what was there before.",
        remedy=remedy,
    )


def unreachable(node: str, why: str) -> Finding:
    """Return the finding for a node that does not answer."""
    return Finding(
        check="reachable",
        subject=node,
        verdict=Verdict.FAIL,
        expected="answers",
        observed=why,
        why="A node that does not answer trains nothing, and its links are not measured.",
    )
