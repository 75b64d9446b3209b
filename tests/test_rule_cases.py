"""Every rule over every case: `cases/rules/<rule>/<case>.yaml` gives facts and the findings they must lead to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json, to_jsonable_python

from railbed.check.book import CHECK_BOOK, essential_checks
from railbed.model.fix import ConfigStep, FileStep, Fix, RunStep
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Unknown
from railbed.model.record import Finding, Verdict
from railbed.rules.engine import judge
from railbed.rules.site import Site
from railbed.store.records import read_record
from tests.support.rulecase import CASES, cluster_of, load_yaml, site_of

REMOVES = re.compile(r"\b(del|delete|remove|disable)\b")
PLACEHOLDERS = re.compile(r"\b(SWITCH|PORT|NODE|IF|DEV|DEVICE|HOST|ADDRESS|PREFIX|SUBNET|USER|RUN)\b")
FILES = sorted(CASES.glob("*/*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path) -> None:
    case = load_yaml(path)
    findings = list(judge(CHECK_BOOK, site_of(case), [CHECK_BOOK.rules[path.parent.name]]))
    result = [to_jsonable_python(finding) for finding in findings]
    expected: list[dict[str, Any]] = case["expect"]
    shown = [_shown(finding, wanted) for finding, wanted in zip(result, expected, strict=False)]
    assert shown == expected
    assert len(result) == len(expected), result[len(expected) :]
    for finding in result:
        assert finding["observed"], finding
        if finding["verdict"] in ("fail", "warn"):
            assert finding["remedy"], finding
    for judged in findings:
        if judged.fix:
            _check_fix(judged, judged.fix)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_findings_have_names_rather_than_placeholders(path: Path) -> None:
    """The page of a rule has `ip link set dev IF up`; a finding about an interface has its name."""
    for finding in judge(CHECK_BOOK, site_of(load_yaml(path)), [CHECK_BOOK.rules[path.parent.name]]):
        for text in (finding.expected, finding.observed, finding.remedy):
            assert not PLACEHOLDERS.search(text), text


@pytest.mark.parametrize("name", [check.name for check in essential_checks()])
def test_training_needs_no_second_reading(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`train` reads counters once: its rules must not ask which of them increase."""
    original = DeviceFacts.again

    def again(facts: DeviceFacts, probe: Probe[Any]) -> object:
        assert not probe.twice, f"{name} reads {probe.name} again"
        return original(facts, probe)

    monkeypatch.setattr(DeviceFacts, "again", again)
    for path in (CASES / name).glob("*.yaml"):
        list(judge(CHECK_BOOK, site_of(load_yaml(path)), [CHECK_BOOK.rules[name]]))


def _shown(finding: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return of a finding what a case has expectations of; steps of a fix are written as commands, paths or lines."""
    shown = {key: finding[key] for key in wanted}
    if shown.get("fix") and wanted["fix"]:
        fix = shown["fix"]
        steps = {key: [_shown_step(step) for step in fix[key]] for key in ("apply", "undo")}
        shown["fix"] = {key: (fix | steps)[key] for key in wanted["fix"]}
    return shown


def _shown_step(step: dict[str, Any]) -> str:
    if step["step"] == "config":
        return "\n".join(step["lines"])
    shown: str = step["command"] if step["step"] == "run" else step["path"]
    return shown


def _check_fix(finding: Finding, fix: Fix) -> None:
    """A fix is what people read, can be undone, and is read back from the run as it was."""
    assert finding.remedy == fix.remedy
    assert fix.device == finding.subject.partition("/")[0]
    assert all(str(step) in finding.remedy for step in fix.apply)
    assert fix.undo or all(isinstance(step, FileStep | ConfigStep) for step in fix.apply)
    for step in (*fix.apply, *fix.undo):
        if isinstance(step, RunStep) and REMOVES.search(step.command):
            assert step.only_if, f"{step.command} fails if there is nothing to remove"
    assert read_record(to_json(finding)) == finding


@pytest.mark.parametrize("name", sorted(CHECK_BOOK.rules))
def test_every_rule_has_cases_and_a_page(name: str) -> None:
    verdicts = {item["verdict"] for path in FILES if path.parent.name == name for item in load_yaml(path)["expect"]}
    assert "ok" in verdicts
    assert verdicts & {"fail", "warn"}
    check = CHECK_BOOK.rules[name]
    if check.needs:
        assert "unknown" in verdicts
    assert all(check.sections.values())


@pytest.mark.parametrize("name", sorted(name for name, check in CHECK_BOOK.rules.items() if check.needs))
def test_without_readings_a_rule_is_unknown(name: str) -> None:
    """On the cluster of each of its cases, with nothing read: never `ok`, and `unknown` on at least one of them."""
    check = CHECK_BOOK.rules[name]
    nothing = Unknown(reason="not read")
    readings = {probe.name: (nothing, nothing) for probe in check.probes}
    verdicts = set()
    for path in FILES:
        if path.parent.name == name:
            cluster = cluster_of(load_yaml(path))
            devices = {
                name: DeviceFacts(device=name, readings=readings)
                for name in (*cluster.nodes, *cluster.switches, *cluster.bmcs())
            }
            verdicts |= {finding.verdict for finding in judge(CHECK_BOOK, Site(cluster, devices), [check])}
    assert Verdict.UNKNOWN in verdicts
    assert Verdict.OK not in verdicts
