"""The list of verbs matches the verbs' own help, and loads none of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from railbed.cli.main import VERBS, make_app, summary_of


@pytest.mark.parametrize("verb", VERBS)
def test_a_summary_is_the_beginning_of_the_help(verb: str) -> None:
    app: Any = get_command(make_app([verb]))  # typer hides what a group is
    help_text = app.commands[verb].help or ""
    assert summary_of(verb, VERBS[verb]) == help_text.partition("\n\n")[0]


def test_the_list_loads_no_verb() -> None:
    code = "import sys; from railbed.cli.main import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    heavy = {
        "pydantic",
        "asyncssh",
        "rich",
        "railbed.model.cluster",
        *(f"railbed.cli.verbs.{module}" for module in VERBS.values()),
    }
    assert heavy & set(done.stderr.split()) == set()
    assert all(f"\n  {verb} " in done.stdout for verb in VERBS)
