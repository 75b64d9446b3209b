"""Every threshold of diagnose is where the cases expect it: with another one, at least one case has other verdicts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.rules.rule import Rule
from tests.support.diagnosecase import Case, cases_of

FACTORS = (0.25, 4.0)
TECHNIQUE = ("BRIDGE_SECONDS", "FAST_PERCENTILE", "PIECE_SECONDS", "PIECE_STEPS", "SMOOTHED", "WARM_UP")
"""How series are read, not when a verdict is given."""


def thresholds() -> Iterator[tuple[str, str]]:
    """Yield the modules of rules, and those that rules share, with the names of their numbers."""
    modules = {module.__name__: module for rule in DIAGNOSE_BOOK.rules.values() for module in modules_of(rule)}
    for name, module in sorted(modules.items()):
        for key, value in vars(module).items():
            if key.isupper() and isinstance(value, int | float) and key not in TECHNIQUE:
                yield name, key


def modules_of(rule: Rule[Any]) -> list[ModuleType]:
    module = sys.modules[rule.judge.__module__]
    origins = {getattr(value, "__module__", "") for value in vars(module).values()}
    return [module, *(sys.modules[name] for name in origins if name.startswith("railbed.diagnose.shared."))]


@cache
def prepared(rule: str) -> list[Case]:
    """Return the cases of a rule; their series are generated once."""
    return cases_of(rule)


@pytest.mark.parametrize(("module", "name"), list(thresholds()))
def test_another_threshold_gives_other_verdicts(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = getattr(sys.modules[module], name)
    rules = [rule for rule in DIAGNOSE_BOOK.rules.values() if sys.modules[module] in modules_of(rule)]
    for factor in FACTORS:
        monkeypatch.setattr(sys.modules[module], name, type(value)(value * factor))
        missed = all(case.shown(case.judge([rule])) == case.expected for rule in rules for case in prepared(rule.name))
        assert not missed, f"{factor:g} times {name} makes no difference to any case"
