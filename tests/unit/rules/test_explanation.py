"""Verdicts that explain others: which one, and in a time that grows with their number, not with its square."""

from __future__ import annotations

import time
from typing import Any

import pytest

from railbed.model.record import Finding, Verdict
from railbed.rules.explain import Concluded, Explanation
from railbed.rules.rule import Rule


def named(name: str, *, yields_to: tuple[str, ...] = (), yields_anywhere: tuple[str, ...] = ()) -> Rule[Any]:
    return Rule(
        name=name,
        title="",
        doc="",
        scope="cluster",
        judge=lambda _: iter(()),
        yields_to=yields_to,
        yields_anywhere=yields_anywhere,
    )


CAUSE = named("cause", yields_to=("effect",))
EFFECT = named("effect", yields_to=("cause",), yields_anywhere=("elsewhere",))
ELSEWHERE = named("elsewhere")


def wrong(rule: Rule[Any], subject: str, since: float | None, until: float | None) -> Finding:
    return Finding(
        check=rule.name,
        subject=subject,
        verdict=Verdict.FAIL,
        expected="",
        observed="",
        why="",
        since=since,
        until=until,
    )


def explain(*findings: Finding) -> list[str]:
    rules = {rule.name: rule for rule in (EFFECT, CAUSE, ELSEWHERE)}
    explanation = Explanation(lambda first, second: first == second, 5.0)
    shown = explanation.apply(Concluded(rules[finding.check], finding) for finding in findings)
    return [finding.observed.strip(" ()") for finding in shown if finding.check == "effect"]


@pytest.mark.parametrize(
    ("since", "until", "explained"),
    [(10, 20, True), (25, 26, True), (25.5, 26, False), (0, 4.5, False), (0, 5, True), (None, None, True)],
)
def test_a_cause_explains_what_happens_at_about_the_same_time(since: float, until: float, explained: bool) -> None:
    effect = wrong(EFFECT, "a", since, until)
    assert explain(effect, wrong(ELSEWHERE, "b", 10, 20)) == (["explained by elsewhere on b"] if explained else [""])


def test_a_long_cause_explains_although_later_ones_are_over() -> None:
    causes = [wrong(ELSEWHERE, "b", 0, 1000), *(wrong(ELSEWHERE, "c", at, at + 1) for at in range(10, 900, 20))]
    assert explain(wrong(EFFECT, "a", 950, 960), *causes) == ["explained by elsewhere on b"]


def test_the_same_place_explains_first() -> None:
    causes = wrong(ELSEWHERE, "b", 1, 2), wrong(ELSEWHERE, "a", 1, 2)
    assert explain(wrong(EFFECT, "a", 1, 2), *causes) == ["explained by elsewhere on a"]


def test_verdicts_that_yield_to_each_other_end() -> None:
    (explained,) = explain(wrong(EFFECT, "a", 1, 2), wrong(CAUSE, "a", 1, 2))
    assert explained.startswith("explained by ")


def test_ten_thousand_episodes_are_explained_in_reasonable_time() -> None:
    """With every effect compared with every cause, this takes minutes."""
    episodes = range(0, 600_000, 60)
    effects = [wrong(EFFECT, "a", at, at + 10) for at in episodes]
    causes = [wrong(ELSEWHERE, "b", at, at + 10) for at in episodes]
    begun = time.process_time()
    assert set(explain(*effects, *causes)) == {"explained by elsewhere on b"}
    assert time.process_time() - begun < 30
