"""Alert rules for Prometheus, and the tests of these rules for promtool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from railbed.web.monitoring.alert_rules import fabric_alerts, node_alerts
from railbed.web.monitoring.alerts import INTERVAL_SECONDS, JUDGED_SECONDS, STEP_SECONDS, Alert, Case
from railbed.web.monitoring.site import MonitoredCluster

RULES = "railbed.rules.yml"


def alerts_of(site: MonitoredCluster) -> list[Alert]:
    """Return every alert that makes sense for a cluster."""
    return [*fabric_alerts(site), *node_alerts(site)]


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
                "exp_alerts": [] if case.fires is None else [_expected(alert, case.fires)],
            }
        ],
    }


def _expected(alert: Alert, labels: Mapping[str, str]) -> Mapping[str, Any]:
    annotations = {"summary": alert.summary, "description": alert.action}
    return {
        "exp_labels": {**labels, "severity": alert.severity},
        "exp_annotations": {name: _filled(text, labels) for name, text in annotations.items()},
    }


def _filled(text: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels.get(match[1], ""), text)
