"""Debian's promtool judges the generated files; its Prometheus scrapes the exporter, fires alerts and fills panels."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from railbed import clusterfile
from railbed.model.cluster import Cluster, Node
from railbed.web.metrics.names import METRICS
from railbed.web.monitoring.files import DASHBOARD, PROMETHEUS, TESTS, TOKEN_FILE, monitoring_files, write_monitoring
from railbed.web.monitoring.rules import RULES
from railbed.web.monitoring.service import Service
from tests.support.exporting import SILENT, exporting, failing_cluster
from tests.support.monitored import monitored_cluster
from tests.support.prometheus import SECONDS, Prometheus, program, promtool, running_prometheus, wait_for

pytestmark = [pytest.mark.prometheus, pytest.mark.xdist_group("prometheus")]

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.yaml"))
SERVICE = Service(program=Path("/usr/bin/railbed"), cluster_file=Path("/srv/cluster.yaml"), user="operator")
TOKEN = "a-token-of-the-tests"  # noqa: S105
VARIABLES = {"$node": ".+", "$rail": ".+", "$__rate_interval": "15s"}
"""What Grafana puts in place of its variables."""
Plain = dict[str, Any]


def load(path: Path) -> Plain:
    content: Plain = YAML(typ="safe", pure=True).load(path.read_text())
    return content


def dump(content: Mapping[str, Any], path: Path) -> None:
    """Write JSON, which is YAML too: ruamel takes seconds for all the variants."""
    path.write_text(json.dumps(content))


def clusters() -> Iterator[Cluster]:
    yield from (clusterfile.load(path) for path in EXAMPLES)
    yield Cluster(name="local", nodes={"local": Node(host="local")})
    yield monitored_cluster(priority=5, name="priority5")


def test_files_for_the_examples_are_valid(tmp_path: Path) -> None:
    for cluster in clusters():
        write_monitoring(tmp_path / cluster.name, monitoring_files(cluster, SERVICE))
    checked = promtool("check", "config", *tmp_path.glob(f"*/{PROMETHEUS}"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "SUCCESS: 0 rules" not in checked.stdout


@pytest.mark.soak
def test_rules_for_the_examples_work(tmp_path: Path) -> None:
    for cluster in clusters():
        write_monitoring(tmp_path / cluster.name, monitoring_files(cluster, SERVICE))
    tested = promtool("test", "rules", *tmp_path.glob(f"*/{TESTS}"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def mutants(rule: Plain) -> Iterator[Plain]:
    """Yield a rule with each of its numbers changed, each of its terms removed, and other waiting times."""
    expr = str(rule["expr"])
    for number in re.finditer(r"(?<=[<>] )[\d.]+|[\d.]+(?= \*)|(?<=\* )[\d.]+", expr):
        value = float(number[0])
        for other in (value * 1.45, value * 0.6) if value else (-1.0, 3.0):
            yield rule | {"expr": f"{expr[: number.start()]}{other}{expr[number.end() :]}"}
    terms = expr.split("\n")
    if len(terms) > 1:
        for index in range(len(terms)):
            rest = "\n".join(terms[:index] + terms[index + 1 :])
            yield rule | {"expr": re.sub(r"^(or|and on \(cluster\)|and|unless) ", "", rest)}
    for matcher in sorted(set(re.findall(r',(?:priority|queue|rail|kind)=~?"[^"]*"', expr))):
        yield rule | {"expr": expr.replace(matcher, "")}
    for hold in {"0s", "10m"} if rule["for"] != "0s" else {"10m"}:
        yield rule | {"for": hold}


def test_rules_fire_when_they_should_and_only_because_of_each_of_their_terms(tmp_path: Path) -> None:
    """Every rule passes its tests, and fails them with another threshold, waiting time or selection, or without a term.

    All variants of a rule are judged with the same series, since promtool takes its time for each set of series.
    """
    write_monitoring(tmp_path, monitoring_files(monitored_cluster(), SERVICE))
    tests = load(tmp_path / TESTS)
    variants: dict[str, Plain] = {}
    for rule in load(tmp_path / RULES)["groups"][0]["rules"]:
        alert = rule["alert"]
        named = {f"{alert}_{number}": variant for number, variant in enumerate([rule, *mutants(rule)])}
        variants |= named
        rules = [variant | {"alert": name} for name, variant in named.items()]
        dump({"groups": [{"name": "variants", "rules": rules}]}, tmp_path / f"{alert}.yml")
        cases = [_judging(named, test) for test in tests["tests"] if test["name"].startswith(f"{alert}: ")]
        dump(tests | {"rule_files": [f"{alert}.yml"], "tests": cases}, tmp_path / f"{alert}.test.yml")
    outcome = promtool("test", "rules", *tmp_path.glob("Railbed*.test.yml"))
    failed = set(re.findall(r"alertname: ?(\w+)", outcome.stdout + outcome.stderr))
    assert failed <= variants.keys(), outcome
    unchanged = {name for name in variants if name.endswith("_0")}
    assert failed & unchanged == set(), outcome
    survivors = sorted(variants.keys() - failed - unchanged)
    assert [f"{name}: {variants[name]['expr']} for {variants[name]['for']}" for name in survivors] == []


def _judging(names: Iterable[str], test: Plain) -> Plain:
    """Return a test with the same expectation of every variant of its rule."""
    (expected,) = test["alert_rule_test"]
    return test | {"alert_rule_test": [expected | {"alertname": name} for name in names]}


@dataclass
class Watched:
    """A Prometheus server that scrapes an exporter, with the generated files."""

    server: Prometheus
    exporter: ExitStack
    port: int
    board: Plain


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("monitoring")
    away = Service(program=SERVICE.program, cluster_file=SERVICE.cluster_file, user="operator", address="0.0.0.0")  # noqa: S104
    write_monitoring(folder, monitoring_files(failing_cluster(), away))
    with ExitStack() as exporter:
        port = exporter.enter_context(exporting(failing_cluster(), TOKEN))
        _hurry(folder, port)
        with running_prometheus(folder / PROMETHEUS, folder) as server:
            yield Watched(server, exporter, port, json.loads((folder / DASHBOARD).read_text()))


def _hurry(folder: Path, port: int) -> None:
    """Have Prometheus scrape this exporter every second, and alerts fire without waiting."""
    (folder / "token").write_text(TOKEN)
    config = load(folder / PROMETHEUS)
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (job,) = config["scrape_configs"]
    assert job["authorization"]["credentials_file"] == TOKEN_FILE
    job["authorization"]["credentials_file"] = str(folder / "token")
    job["static_configs"][0]["targets"] = [f"127.0.0.1:{port}"]
    dump(config, folder / PROMETHEUS)
    rules = load(folder / RULES)
    rules["groups"][0]["interval"] = "1s"
    for rule in rules["groups"][0]["rules"]:
        rule["for"] = "0s"
    dump(rules, folder / RULES)


def test_prometheus_scrapes_every_metric(watched: Watched) -> None:
    wait_for(lambda: watched.server.query("railbed_up"))
    (target,) = watched.server.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    scraped = watched.server.get("metadata")
    for meter, metric in METRICS.items():
        assert scraped[metric.name] == [{"type": metric.kind, "help": metric.help, "unit": ""}], meter
    (age,) = watched.server.query('railbed_sample_age_seconds{device="node1"}')
    assert age["metric"].items() >= {"cluster": "site.a", "job": "railbed", "kind": "node"}.items()


def test_every_panel_has_data(watched: Watched) -> None:
    queries = {
        f"{panel['title']}: {target['expr']}": _filled(target["expr"])
        for panel in watched.board["panels"]
        for target in panel.get("targets", ())
    }
    assert len(queries) > 40

    def empty() -> list[str]:
        return [title for title, expr in queries.items() if not watched.server.query(expr)]

    try:
        wait_for(lambda: not empty())
    except AssertionError:
        assert empty() == []


def _filled(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    assert "$" not in expr
    return expr


def firing(server: Prometheus) -> dict[str, list[Plain]]:
    """Return the labels of what fires by the name of the alert."""
    (group,) = server.get("rules", type="alert")["groups"]
    return {
        rule["name"]: [alert["labels"] for alert in rule["alerts"] if alert["state"] == "firing"]
        for rule in group["rules"]
    }


def test_rules_fire_in_the_server(watched: Watched) -> None:
    wait_for(lambda: {name for name, alerts in firing(watched.server).items() if not alerts} <= {"RailbedExporterDown"})
    alerts = firing(watched.server)
    assert [(alert["device"],) for name in ("RailbedSilentNode", "RailbedSilentSwitch") for alert in alerts[name]] == [
        (device,) for device in SILENT
    ]
    assert [alert["rank"] for alert in alerts["RailbedStragglerRank"]] == ["0"]
    assert {(alert["node"], alert["rail"]) for alert in alerts["RailbedTcpFallback"]} == {
        (node, rail) for node in ("node1", "node2") for rail in ("rail0", "rail1")
    }
    assert alerts["RailbedExporterDown"] == []


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/metrics", {}, 401),
        ("/metrics", {"Authorization": "Bearer wrong"}, 401),
        ("/metrics", {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 421),
        ("/metrics", {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403),
        ("/nothing", {"Authorization": f"Bearer {TOKEN}"}, 404),
    ],
)
def test_requests_that_are_refused(watched: Watched, path: str, headers: dict[str, str], code: int) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{watched.port}{path}", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)  # noqa: S310
    with refused.value as answer:
        assert answer.code == code
        sentence = answer.read().decode()
    assert sentence.endswith(".\n")
    assert sentence.count("\n") == 1


def test_the_text_has_no_flaws(watched: Watched) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{watched.port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read()
    words = [program("promtool"), "check", "metrics"]
    linted = subprocess.run(words, input=text, capture_output=True, timeout=SECONDS, check=False)
    assert (linted.returncode, linted.stdout, linted.stderr) == (0, b"", b"")


def test_an_exporter_that_ends_is_noticed(watched: Watched) -> None:
    watched.exporter.close()
    wait_for(lambda: firing(watched.server)["RailbedExporterDown"])
    wait_for(lambda: not watched.server.query("railbed_up"))
