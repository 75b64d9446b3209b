"""`railbed check --explain RULE`: the documentation of a rule."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from rich.text import Text

from railbed.check.rule import Check
from railbed.cli.console import SafeConsole


def explain_rule(rule: Check[Any], *, as_json: bool) -> None:
    """Print what a rule checks, why, the fix, the source, and what it reads."""
    sections = rule.sections
    if rule.needs:
        sections["Reads"] = ", ".join(probe.name for probe in rule.needs)
    if rule.essential:
        sections["Exit code"] = "Training depends on it: if it is unknown and nothing failed, check exits with 3."
    print_page(rule.name, rule.title, sections, as_json=as_json)


def print_page(name: str, title: str, sections: Mapping[str, str], *, as_json: bool) -> None:
    """Print the documentation of a rule, of check or of diagnose."""
    if as_json:
        parts = {heading.lower().replace(" ", "_"): text for heading, text in sections.items()}
        sys.stdout.write(to_json({"kind": "rule", "check": name, "title": title, **parts}).decode() + "\n")
        return
    console = SafeConsole(highlight=False)
    console.print(Text.assemble((name, "bold"), f"  {title}"))
    for heading, text in sections.items():
        console.print(Text(f"\n{heading}", style="bold"))
        console.print(Text(text))
