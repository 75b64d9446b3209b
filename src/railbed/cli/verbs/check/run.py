"""The work of `railbed check`: choose rules and cluster, and check, explain or prove."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from railbed.api.exits import OK
from railbed.api.tally import conclude_check
from railbed.catalog import choose
from railbed.check.judge import all_checks, usual_checks
from railbed.check.rule import Check
from railbed.check.run import check
from railbed.cli.background.runs import jobs_in_progress
from railbed.cli.options import Options
from railbed.cli.run.perform import perform
from railbed.cli.screens.choose import make_screen
from railbed.cli.site import given_cluster
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.probes.outputs import all_probes


def explain_named(name: str, *, as_json: bool) -> int:
    """Explain a rule."""
    # Imported here because drawing is slow to load, and a check as JSON draws nothing.
    from railbed.cli.verbs.check.explain import explain_rule

    explain_rule(_rule(name), as_json=as_json)
    return OK


def check_cluster(
    file: Path | None, options: Options, rules: Sequence[str], *, prove: str | None, every_pair: bool
) -> int:
    """Check a cluster by some rules, or by all, and return the exit code."""
    chosen = [_rule(name) for name in rules] if rules else usual_checks()
    if prove is not None:
        # Imported here because training takes as long to load as a small cluster takes to answer.
        from railbed.cli.verbs.check.prove import prove_command

        return prove_command(prove, given_cluster(file, options.replay), chosen, options, every_pair=every_pair)
    from_file = given_cluster(file, options.replay)
    wanted = from_file or _local_cluster(options.timeout)
    # A full check of a cluster with rails also records probes that no rule needs, as evidence for bug reports.
    extra = () if rules or not any(wanted.ports()) else all_probes().values()

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        runs = {} if options.replay else jobs_in_progress()
        return check(wanted, fleet, chosen, extra_probes=extra, every_pair=every_pair, runs=runs)

    configurable = from_file is not None and not options.replay
    screen = make_screen(as_json=options.json, verbose=options.verbose, cluster=wanted, configurable=configurable)
    return perform("check", wanted, options, work, decide=conclude_check, screen=screen)


def _local_cluster(timeout: float) -> Cluster:
    # Imported here because a cluster file, the usual case, needs nothing of discover.
    from railbed.cli.local import local_cluster

    return local_cluster(timeout)


def _rule(name: str) -> Check[Any]:
    return choose(all_checks(), name, kind="rule", listing="docs/reference/checks.md lists them")
