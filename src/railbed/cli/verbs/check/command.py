"""The options of railbed check; `run.py` does the work, and loads too slowly for `--help`."""

from __future__ import annotations

from typing import Annotated

import typer

from railbed.cli.options import ClusterOption, JsonOption, Options, RecordOption, ReplayOption, TimeoutOption
from railbed.errors import UsageError
from railbed.model.limits import DEVICE_SECONDS

RulesArgument = Annotated[list[str] | None, typer.Argument(metavar="RULE", help="Only these rules. [default: all]")]
ExplainOption = Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Explain a rule and exit.")]
ProveOption = Annotated[
    str | None,
    typer.Option(
        "--prove",
        metavar="WHAT",
        help="Also send traffic: `training` shows what carries gradients, `path` follows a marked stream hop by hop.",
    ),
]
ChecklistOption = Annotated[
    bool,
    typer.Option(
        "--checklist",
        help="List what to do by hand and what is checked, to tick (as Markdown if not on a terminal), and exit.",
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Also list passing checks line by line.")]
AllPairsOption = Annotated[
    bool, typer.Option("--all-pairs", help="Test the path between every pair of nodes, even on a rail with many.")
]


def check_command(
    rules: RulesArgument = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
    everything: AllOption = False,
    all_pairs: AllPairsOption = False,
    explain: ExplainOption = None,
    prove: ProveOption = None,
    checklist: ChecklistOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
    record: RecordOption = None,
    replay: ReplayOption = None,
) -> int:
    """Check the cluster: findings, each with its reason and its remedy.

    Example: railbed check --cluster examples/two-roce-vms.yaml
    """
    from railbed.cli.verbs.check.run import check_cluster, explain_named, show_checklist

    if explain:
        return explain_named(explain, as_json=as_json)
    options = Options(json=as_json, record=record, replay=replay, timeout=timeout, verbose=everything)
    if checklist:
        if prove or all_pairs or record:
            raise UsageError("--checklist reads no device", hint="leave out --prove, --all-pairs and --record")
        return show_checklist(cluster, options, rules or ())
    return check_cluster(cluster, options, rules or (), prove=prove, every_pair=all_pairs)
