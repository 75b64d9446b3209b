"""Alert rules for Prometheus, and the tests of these rules for promtool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from railbed.web.metrics.status import UP
from railbed.web.monitoring.alert_rules import fabric_alerts, node_alerts
from railbed.web.monitoring.alerts import (
    INTERVAL_SECONDS,
    JUDGED_SECONDS,
    STEP_SECONDS,
    Alert,
    Case,
    changed_series,
    constant,
    fires,
    near_miss,
)
from railbed.web.monitoring.site import JOB, MonitoredCluster

RULES = "railbed.rules.yml"


def alerts_of(site: MonitoredCluster) -> list[Alert]:
    """Return every alert that makes sense for a cluster."""
    return [*fabric_alerts(site), *node_alerts(site), *_silent(site), _exporter_down(site)]


def rules(site: MonitoredCluster) -> Mapping[str, Any]:
    """Return the content of the rule file."""
    return {
        "groups": [
            {
                "name": f"railbed-{site.name}",
                "interval": f"{INTERVAL_SECONDS}s",
                "rules": [_rule(alert) for alert in alerts_of(site)],
            }
        ]
    }


def _rule(alert: Alert) -> Mapping[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.hold,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.action},
    }


def rule_tests(site: MonitoredCluster) -> Mapping[str, Any]:
    """Return the content of the test file: for each alert, cases in which it fires and near misses."""
    return {
        "rule_files": [RULES],
        "evaluation_interval": f"{STEP_SECONDS}s",
        "tests": [_test(alert, case) for alert in alerts_of(site) for case in alert.cases],
    }


def _test(alert: Alert, case: Case) -> Mapping[str, Any]:
    return {
        "name": f"{alert.name}: {case.title}",
        "interval": f"{STEP_SECONDS}s",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{JUDGED_SECONDS}s",
                "alertname": alert.name,
                "exp_alerts": [] if case.fires is None else [_expect(alert, case.fires)],
            }
        ],
    }


def _expect(alert: Alert, labels: Mapping[str, str]) -> Mapping[str, Any]:
    annotations = {"summary": alert.summary, "description": alert.action}
    return {
        "exp_labels": {**labels, "severity": alert.severity},
        "exp_annotations": {name: _fill_in(text, labels) for name, text in annotations.items()},
    }


def _fill_in(text: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels.get(match[1], ""), text)


def _silent(site: MonitoredCluster) -> Iterator[Alert]:
    kinds = {"node": list(site.cluster.nodes), "switch": [port.device for port in site.switch_ports]}
    for kind, names in kinds.items():
        if not names:
            continue
        up = site.select_metric(UP, device=names[0], kind=kind)
        other = site.select_metric(UP, device="other", kind="switch" if kind == "node" else "node")
        labels = {"cluster": site.name, "device": names[0], "kind": kind}
        yield Alert(
            name=f"RailbedSilent{kind.title()}",
            expr=f"{site.select_metric(UP, kind=kind)} == 0",
            hold="30s",
            severity="critical" if kind == "node" else "warning",
            summary=f"The {kind} {{{{ $labels.device }}}} does not answer.",
            action="It is off, hangs, or cannot be reached. `railbed check` says which.",
            cases=(
                fires("no samples for a minute", labels, changed_series(up, 60, 1, 0)),
                near_miss("no samples for a moment", changed_series(up, 20, 1, 0)),
                near_miss("a device of another kind does not answer", constant(up, 1), constant(other, 0)),
            ),
        )


def _exporter_down(site: MonitoredCluster) -> Alert:
    up = site.select_metric("up", job=JOB)
    return Alert(
        name="RailbedExporterDown",
        expr=f"{up} == 0\nor absent({up})",
        hold="1m",
        severity="critical",
        summary=f"Nothing samples the cluster {site.name}.",
        action="`systemctl status railbed-exporter` shows why the exporter ended.",
        cases=(
            fires("it cannot be scraped", {"cluster": site.name, "job": JOB}, changed_series(up, 90, 1, 0)),
            fires("it is not configured", {"cluster": site.name, "job": JOB}),
            near_miss("some scrapes failed", changed_series(up, 40, 1, 0)),
        ),
    )
