"""`--explain RULE`: the documentation of a rule."""

from __future__ import annotations

import sys
from typing import Any

from pydantic_core import to_json

from railbed.api.exits import OK
from railbed.rules.rule import Rule


def explain_rule(rule: Rule[Any], *, as_json: bool) -> int:
    """Print what a rule judges, why, the fix, the source, and what it reads."""
    sections = rule.sections
    if rule.needs:
        sections["Reads"] = ", ".join(rule.reads)
    if rule.essential:
        sections["Exit code"] = "Training depends on it: if it is unknown and nothing failed, check exits with 3."
    if as_json:
        parts = {heading.lower().replace(" ", "_"): text for heading, text in sections.items()}
        sys.stdout.write(to_json({"kind": "rule", "check": rule.name, "title": rule.title, **parts}).decode() + "\n")
        return OK
    # Imported here because drawing is slow to load, and JSON draws nothing.
    from rich.text import Text

    from railbed.cli.console import SafeConsole

    console = SafeConsole(highlight=False)
    console.print(Text.assemble((rule.name, "bold"), f"  {rule.title}"))
    for heading, text in sections.items():
        console.print(Text(f"\n{heading}", style="bold"))
        console.print(Text(text))
    return OK
