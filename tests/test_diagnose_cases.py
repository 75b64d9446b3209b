"""Every rule of diagnose over every case: `cases/diagnose/<rule>/<case>.yaml` gives series and the verdicts they must
lead to; `cases/diagnose/together` is judged by all rules."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json
from typer.main import get_command

from railbed.bench import experiments, suites
from railbed.check.book import CHECK_BOOK
from railbed.cli.main import make_app
from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.model.meters import METERS
from railbed.model.record import WRONG, Verdict
from railbed.rules.engine import judge
from railbed.store.records import read_record
from tests.support.diagnosecase import CASES, load_case, read_case, site_of

TOGETHER = "together"
FILES = sorted(CASES.glob("*/*.yaml"))
TOOLS = {"dmesg", "ethtool", "journalctl", "nvidia-smi", "railbed", "show", "ss", "tc"}
"""`show` is a command of the switch."""
SETTINGS = {"shares: auto", "--set batch.micro=N", "--set checkpoint.steps=N"}
"""Of a recipe, in a sentence."""
NEEDS_NOTHING = {"node_clock", "path_changed", "training_restart", "run_unstored"}
"""They judge marks, which every run has."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path) -> None:
    case = read_case(path)
    findings = case.judge(None if path.parent.name == TOGETHER else [DIAGNOSE_BOOK.rules[path.parent.name]])
    assert case.shown(findings) == case.expected
    for finding in findings:
        assert finding.observed
        assert "nan" not in f"{finding.observed} {finding.evidence}"
        assert read_record(to_json(finding)) == finding
        if finding.verdict in WRONG:
            assert finding.remedy
            assert finding.certainty


@pytest.mark.parametrize("name", sorted(DIAGNOSE_BOOK.rules))
def test_every_rule_has_cases_and_a_page(name: str) -> None:
    expected = [load_case(path)["expect"] for path in FILES if path.parent.name == name]
    verdicts = [{finding["verdict"] for finding in findings} for findings in expected]
    assert any(verdict in WRONG for case in verdicts for verdict in case), "no positive case"
    assert {"ok"} in verdicts, "no case that nearly is one"
    rule = DIAGNOSE_BOOK.rules[name]
    assert all(rule.sections.values())
    assert set(rule.needs) <= METERS.keys()
    assert {*rule.yields_to, *rule.yields_anywhere} <= DIAGNOSE_BOOK.rules.keys()


def test_no_rules_explain_each_other() -> None:
    graph = {rule.name: {*rule.yields_to, *rule.yields_anywhere} for rule in DIAGNOSE_BOOK.rules.values()}
    assert set(TopologicalSorter(graph).static_order()) == DIAGNOSE_BOOK.rules.keys()


@pytest.mark.parametrize("name", sorted(DIAGNOSE_BOOK.rules))
def test_the_next_command_works_when_typed(name: str) -> None:
    """Commands of railbed parse and name things that exist; others are of standard tools, or of the switch."""
    commands = [
        text for text in re.findall(r"`([^`]*)`", DIAGNOSE_BOOK.rules[name].fix) if " " in text or text in TOOLS
    ]
    assert commands
    for command in commands:
        tool, *words = command.split()
        if tool != "railbed":
            assert tool in TOOLS or command in SETTINGS, command
            continue
        app: Any = get_command(make_app([words[0]]))  # typer hides what a group is
        verb = app.commands[words[0]]
        parameters = verb.make_context(verb.name, words[1:]).params
        assert set(parameters.get("rules") or ()) <= CHECK_BOOK.rules.keys(), command
        assert parameters.get("suite", "tcp") in suites.names(), command
        assert parameters.get("experiment") in (None, *experiments.names()), command


def test_without_series_rules_are_skipped_with_the_reason() -> None:
    findings = list(judge(DIAGNOSE_BOOK, site_of({})))
    assert {finding.check for finding in findings if finding.verdict is not Verdict.SKIPPED} == NEEDS_NOTHING
    assert {finding.check for finding in findings} == DIAGNOSE_BOOK.rules.keys()
    assert all(finding.observed for finding in findings)
