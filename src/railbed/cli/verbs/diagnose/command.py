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
FollowOption = Annotated[
    bool,
    typer.Option("--follow", help="Print the verdicts about a run in progress as they appear and end, until it ends."),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only verdicts about this time and later: 09:13, 2026-11-17T09:13, or 10m for the last ten minutes.",
    ),
]
ExplainOption = Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Explain a rule and exit.")]


def diagnose_command(
    run: RunArgument = None,
    follow: FollowOption = False,
    since: SinceOption = None,
    as_json: JsonOption = False,
    everything: AllOption = False,
    explain: ExplainOption = None,
) -> int:
    """Explain in words what happened during a run: what, since when, where, how certain, and what to do.

    Example: railbed diagnose 20260101-120000-train
    """
    from railbed.cli.verbs.diagnose.run import DiagnoseRequest, diagnose_run, explain_named

    if explain:
        return explain_named(explain, as_json=as_json)
    request = DiagnoseRequest(since=since, json=as_json, everything=everything, follow=follow)
    return diagnose_run(run, request)
