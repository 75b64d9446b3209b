"""Every rule of capture over every case in `tests/captures/cases`, and every threshold where the cases expect it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from graphlib import TopologicalSorter
from inspect import getsource
from typing import Any

import pytest
from pydantic_core import to_json
from typer.main import get_command

from railbed.capture import marked
from railbed.capture.analysis import checksums
from railbed.capture.book import CAPTURE_BOOK
from railbed.check.book import CHECK_BOOK
from railbed.cli.main import make_app
from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.model.record import WRONG
from railbed.store.records import read_record
from tests.captures.cases import delivery, marking, reaction, recorder, route
from tests.captures.cases.case import UNKNOWN_CARDS, Case

CASES: list[Case] = [*marking.CASES, *reaction.CASES, *delivery.CASES, *recorder.CASES, *route.CASES]
FACTORS = (0.25, 4.0)
TOOLS = {"ethtool", "ip", "show", "tc", "tcpdump"}
"""`show` is a command of the switch."""
SHARED = (marked, checksums)
"""What rules share, thresholds included."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.name}")
def test_case(case: Case) -> None:
    assert case.shown() == case.expected
    for finding in case.findings():
        assert "nan" not in f"{finding.observed} {finding.evidence}"
        assert read_record(to_json(finding)) == finding
        if finding.verdict in WRONG:
            assert finding.remedy
            assert finding.certainty


@pytest.mark.parametrize("name", sorted(CAPTURE_BOOK.rules))
def test_every_rule_has_cases_and_a_page(name: str) -> None:
    verdicts = {expected[0] for case in CASES if case.rule == name for expected in case.expected}
    assert verdicts & set(WRONG), "no positive case"
    assert "ok" in verdicts, "no case that nearly is one"
    rule = CAPTURE_BOOK.rules[name]
    assert all(rule.sections.values())
    assert {*rule.yields_to, *rule.yields_anywhere} <= CAPTURE_BOOK.rules.keys()


def test_only_what_was_sent_again_is_certainly_lost() -> None:
    certainties = {case.name: case.findings()[0].certainty for case in CASES if case.rule == "delivery_lost"}
    assert (certainties["three"], certainties["answers"]) == ("certain", "likely")


def test_nobody_who_recorded_both_ends_is_told_to_record_both_ends() -> None:
    twice = {"delivery_repeated": delivery.lost(2), "delivery_corrupt": delivery.damaged_on_the_way()}
    for rule, recordings in twice.items():
        case = Case(rule, "both ends", partial(list, recordings), ())
        wrong = [finding for finding in case.findings() if finding.verdict in WRONG]
        assert wrong, rule
        for finding in wrong:
            assert "both ends" not in finding.remedy
            assert "on the way" in finding.remedy or "arrive damaged" in finding.remedy
        alone = Case(rule, "one end", partial(list, recordings[-1:]), ())
        assert ["ecord both ends" in finding.remedy for finding in alone.findings()] == [True]


def test_no_rules_explain_each_other() -> None:
    graph = {rule.name: {*rule.yields_to, *rule.yields_anywhere} for rule in CAPTURE_BOOK.rules.values()}
    assert set(TopologicalSorter(graph).static_order()) == CAPTURE_BOOK.rules.keys()


def test_a_name_means_one_rule() -> None:
    assert not CAPTURE_BOOK.rules.keys() & (CHECK_BOOK.rules.keys() | DIAGNOSE_BOOK.rules.keys())


@pytest.mark.parametrize("name", sorted(CAPTURE_BOOK.rules))
def test_the_next_command_works_when_typed(name: str) -> None:
    """Commands of railbed parse and name rules that exist; others are of standard tools, or of the switch."""
    commands = [text for text in re.findall(r"`([^`]*)`", CAPTURE_BOOK.rules[name].fix) if " " in text]
    assert commands
    for command in commands:
        tool, *words = command.split()
        if tool != "railbed":
            assert tool in TOOLS, command
            continue
        app: Any = get_command(make_app([words[0]]))  # typer hides what a group is
        verb = app.commands[words[0]]
        parameters = verb.make_context(verb.name, words[1:]).params
        assert set(parameters.get("rules") or ()) <= CHECK_BOOK.rules.keys(), command


def thresholds() -> Iterator[tuple[str, str]]:
    """Yield the modules of rules, and what they share, with the names of the numbers that are defined there."""
    modules = {sys.modules[rule.judge.__module__] for rule in CAPTURE_BOOK.rules.values()} | {*SHARED}
    for module in sorted(modules, key=lambda module: module.__name__):
        for key, value in vars(module).items():
            defined = re.search(rf"^{key} = ", getsource(module), re.MULTILINE)
            if key.isupper() and isinstance(value, int | float) and defined:
                yield module.__name__, key


@pytest.mark.parametrize(("module", "name"), list(thresholds()))
def test_another_threshold_gives_other_verdicts(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = getattr(sys.modules[module], name)
    shared = module in {shared.__name__ for shared in SHARED}
    rules = [rule for rule in CAPTURE_BOOK.rules.values() if shared or rule.judge.__module__ == module]
    cases = [case for case in CASES if case.rule in {rule.name for rule in rules}]
    importing = {rule.judge.__module__ for rule in rules if shared} - {it for it, _ in thresholds()}
    for factor in FACTORS:
        for target in (module, *importing):
            if hasattr(sys.modules[target], name):
                monkeypatch.setattr(sys.modules[target], name, type(value)(value * factor))
        assert any(case.shown() != case.expected for case in cases), f"{factor:g} times {name} makes no difference"


def test_files_do_not_show_whether_software_received_the_packets() -> None:
    """A renamed Soft-RoCE device answers no marks either: without facts of the node that is not certain."""
    for rule, name in (("reaction_no_notification", "fifty"), ("reaction_ignored", "ten")):
        (case,) = [case for case in CASES if (case.rule, case.name) == (rule, name)]
        (known,), (unknown,) = case.findings(), Case(rule, name, case.recordings, (), UNKNOWN_CARDS).findings()
        assert (known.certainty != "possible", unknown.certainty) == (True, "possible")
