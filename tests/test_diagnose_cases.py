"""Every rule of diagnose over every case: `cases/diagnose/<rule>/<case>.yaml` gives series and the verdicts they must
lead to; `cases/diagnose/together` is judged by all rules."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json, to_jsonable_python

from railbed.check.judge import all_checks
from railbed.diagnose.judge import all_rules, diagnose
from railbed.model.record import WRONG, Finding, Verdict
from railbed.model.series import METERS
from railbed.store.records import read_record
from tests.support.diagnosecase import CASES, START, evidence_of, load_case

TOGETHER = "together"
FILES = sorted(CASES.glob("*/*.yaml"))
NEEDS_NOTHING = {"node_clock", "training_restart"}
"""They judge marks, which every run has."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path) -> None:
    case = load_case(path)
    together = path.parent.name == TOGETHER
    findings = diagnose(evidence_of(case), None if together else [all_rules()[path.parent.name]])
    wrong = [finding for finding in findings if finding.verdict in WRONG]
    result = wrong or ([] if together else findings)
    expected: list[dict[str, Any]] = case["expect"]
    shown = [_shown(finding, wanted) for finding, wanted in zip(result, expected, strict=False)]
    assert shown == expected
    assert len(result) == len(expected), result[len(expected) :]
    for finding in wrong:
        assert finding.observed
        assert finding.remedy
        assert finding.certainty
        assert read_record(to_json(finding)) == finding
        assert "nan" not in f"{finding.observed} {finding.evidence}"


def _shown(finding: Finding, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return of a finding what a case has expectations of; times are seconds since the start of the run."""
    plain = to_jsonable_python(finding)
    for key in ("since", "until"):
        plain[key] = None if plain[key] is None else round(plain[key] - START, 1)
    return {key: plain[key] for key in wanted}


@pytest.mark.parametrize("name", sorted(all_rules()))
def test_every_rule_has_cases_and_a_page(name: str) -> None:
    cases = [load_case(path)["expect"] for path in FILES if path.parent.name == name]
    verdicts = [{finding["verdict"] for finding in expected} for expected in cases]
    assert any(found & {"fail", "warn"} for found in verdicts), "no positive case"
    assert {"ok"} in verdicts, "no case that nearly is one"
    rule = all_rules()[name]
    assert all(rule.sections.values())
    assert set(rule.needs) <= METERS.keys()
    assert {*rule.yields_to, *rule.yields_anywhere} <= all_rules().keys()


def test_no_rules_explain_each_other() -> None:
    graph = {rule.name: {*rule.yields_to, *rule.yields_anywhere} for rule in all_rules().values()}
    assert set(TopologicalSorter(graph).static_order()) == all_rules().keys()


def test_the_commands_of_remedies_name_checks_that_exist() -> None:
    for rule in all_rules().values():
        for words in re.findall(r"`railbed check ([^`]*)`", rule.fix):
            named = [word for word in words.split() if not word.startswith("-") and word not in ("training", "path")]
            assert set(named) <= all_checks().keys(), rule.name


def test_without_series_rules_are_skipped_with_the_reason() -> None:
    findings = diagnose(evidence_of({}))
    assert {finding.check for finding in findings if finding.verdict is not Verdict.SKIPPED} == NEEDS_NOTHING
    assert {finding.check for finding in findings} == all_rules().keys()
    assert all(finding.observed for finding in findings)
