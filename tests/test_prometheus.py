"""Debian's promtool judges the generated files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from railbed import clusterfile
from railbed.model.cluster import Cluster, Node
from railbed.web.monitoring.files import PROMETHEUS, TESTS, monitoring_files, write_monitoring
from railbed.web.monitoring.rules import RULES
from railbed.web.monitoring.service import Service
from tests.support.monitored import monitored_cluster
from tests.support.prometheus import promtool

pytestmark = [pytest.mark.prometheus, pytest.mark.xdist_group("prometheus")]

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.yaml"))
SERVICE = Service(program=Path("/usr/bin/railbed"), cluster_file=Path("/srv/cluster.yaml"), user="operator")
Plain = dict[str, Any]


def load(path: Path) -> Plain:
    content: Plain = YAML(typ="safe", pure=True).load(path.read_text())
    return content


def dump(content: Mapping[str, Any], path: Path) -> None:
    YAML(typ="safe", pure=True).dump(content, path)


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
