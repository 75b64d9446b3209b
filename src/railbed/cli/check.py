"""railbed check"""

from __future__ import annotations

import difflib
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import typer

from railbed.check.judge import all_checks
from railbed.check.rule import Check
from railbed.check.run import check
from railbed.cli.exits import OK
from railbed.cli.options import ClusterOption, JsonOption, Options, RecordOption, ReplayOption, TimeoutOption
from railbed.cli.perform import perform
from railbed.cli.site import given_cluster
from railbed.errors import UsageError
from railbed.fleet.fleet import DEVICE_SECONDS, Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.probes.interpret import all_probes

RulesArgument = Annotated[list[str] | None, typer.Argument(metavar="RULE", help="Only these rules. [default: all]")]
ExplainOption = Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Explain a rule and end.")]
ProveOption = Annotated[
    str | None,
    typer.Option("--prove", metavar="training", help="Send gradients between the nodes, too, and say how they went."),
]
AllOption = Annotated[bool, typer.Option("--all", help="List what is well line by line, too.")]
AllPairsOption = Annotated[
    bool, typer.Option("--all-pairs", help="Test the path between every two nodes, also of a rail with many.")
]


def check_command(
    rules: RulesArgument = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
    everything: AllOption = False,
    all_pairs: AllPairsOption = False,
    explain: ExplainOption = None,
    prove: ProveOption = None,
    timeout: TimeoutOption = DEVICE_SECONDS,
    record: RecordOption = None,
    replay: ReplayOption = None,
) -> int:
    """Is the cluster right? Findings, each with why it matters and its remedy.

    Example: railbed check --cluster examples/two-roce-vms.yaml
    """
    if explain:
        # Imported here because drawing is slow to load, and a check as JSON draws nothing.
        from railbed.cli.explain import explain_rule

        explain_rule(_rule(explain), as_json=as_json)
        return OK
    chosen = [_rule(name) for name in rules] if rules else list(all_checks().values())
    options = Options(json=as_json, record=record, replay=replay, timeout=timeout, verbose=everything)
    if prove is not None:
        # Imported here because training takes as long to load as a small cluster takes to answer.
        from railbed.cli.prove import prove_command

        return prove_command(prove, given_cluster(cluster, replay), chosen, options, every_pair=all_pairs)
    wanted = given_cluster(cluster, replay) or _local_cluster(timeout)
    # A whole check of a cluster with rails also keeps what no rule judges: it is the evidence of a bug report.
    extra = () if rules or not any(wanted.ports()) else all_probes().values()

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return check(wanted, fleet, chosen, extra_probes=extra, every_pair=all_pairs)

    return perform("check", wanted, options, work, must_know=True)


def _local_cluster(timeout: float) -> Cluster:
    # Imported here because a cluster file, the usual case, needs nothing of discover.
    from railbed.cli.local import local_cluster

    return local_cluster(timeout)


def _rule(name: str) -> Check[Any]:
    checks = all_checks()
    if name not in checks:
        near = difflib.get_close_matches(name, checks, n=1)
        hint = f"did you mean {near[0]}?" if near else "docs/reference/checks.md lists them"
        raise UsageError(f"there is no rule {name!r}", hint=hint)
    return checks[name]
