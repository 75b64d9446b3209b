"""The options of railbed diagnose; `run.py` does the work, and loads too slowly for `--help`."""

from __future__ import annotations

from typing import Annotated

import typer

from railbed.cli.options import JsonOption

RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="Name of a run, its folder, or newest; also one in progress. [default: newest]"),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Also list what is explained by other verdicts, was skipped, or is fine.")
]
ExplainOption = Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Explain a rule and exit.")]


def diagnose_command(
    run: RunArgument = None, as_json: JsonOption = False, everything: AllOption = False, explain: ExplainOption = None
) -> int:
    """Explain in words what happened during a run: what, since when, where, how certain, and what to do.

    Example: railbed diagnose 20260101-120000-train
    """
    from railbed.cli.verbs.diagnose.run import diagnose_run, explain_named

    if explain:
        return explain_named(explain, as_json=as_json)
    return diagnose_run(run, as_json=as_json, everything=everything)
