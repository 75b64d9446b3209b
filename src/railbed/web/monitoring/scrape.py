"""The configuration of a Prometheus server that scrapes the exporter of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railbed.web.monitoring.alerts import INTERVAL_SECONDS
from railbed.web.monitoring.rules import RULES
from railbed.web.monitoring.site import JOB, MonitoredCluster

TOKEN_FILE = "/etc/prometheus/railbed.token"  # noqa: S105  (a path)


def scrape_config(site: MonitoredCluster, target: str, *, with_token: bool) -> Mapping[str, Any]:
    """Return the configuration; a token is read from a file, which is not generated."""
    job: dict[str, Any] = {
        "job_name": JOB,
        "static_configs": [{"targets": [target], "labels": {"cluster": site.name}}],
    }
    if with_token:
        job["authorization"] = {"type": "Bearer", "credentials_file": TOKEN_FILE}
    return {
        "global": {
            "scrape_interval": f"{INTERVAL_SECONDS}s",
            "scrape_timeout": f"{INTERVAL_SECONDS - 1}s",
            "evaluation_interval": f"{INTERVAL_SECONDS}s",
        },
        "rule_files": [RULES],
        "scrape_configs": [job],
    }
