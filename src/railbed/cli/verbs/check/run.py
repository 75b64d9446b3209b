"""The work of `railbed check`: choose the cluster, and check, prove, explain, or list what to tick."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from railbed.api.exits import OK
from railbed.api.site import built_in_local
from railbed.api.verbs.check import check, checklist, rule_named
from railbed.cli.explain import explain_rule
from railbed.cli.options import Options
from railbed.cli.run.perform import show
from railbed.cli.screens.choose import make_screen
from railbed.cli.site import given_cluster
from railbed.model.cluster import Cluster


def explain_named(name: str, *, as_json: bool) -> int:
    """Explain a rule."""
    return explain_rule(rule_named(name), as_json=as_json)


def check_cluster(
    file: Path | None, options: Options, rules: Sequence[str], *, prove: str | None, every_pair: bool
) -> int:
    """Check a cluster by some rules, or by all, and return the exit code."""
    from_file = given_cluster(file, options.replay)
    # Nothing can be proved about one machine, so that it need not be discovered.
    cluster = from_file or (built_in_local() if prove else _local_cluster(options.timeout))
    stream = check(cluster, rules=rules, prove=prove, every_pair=every_pair, reach=options)
    configurable = from_file is not None and not options.replay
    screen = make_screen(as_json=options.json, verbose=options.verbose, cluster=cluster, configurable=configurable)
    return show(stream, screen)


def show_checklist(file: Path | None, options: Options, rules: Sequence[str]) -> int:
    """Print the list to tick for a cluster."""
    # Imported here because a check draws other things.
    from railbed.cli.screens.checklist import print_checklist

    cluster = given_cluster(file, options.replay) or _local_cluster(options.timeout)
    print_checklist(cluster.name, checklist(cluster, rules=rules, reach=options), as_json=options.json)
    return OK


def _local_cluster(timeout: float) -> Cluster:
    # Imported here because a cluster file, the usual case, needs nothing of discover.
    from railbed.cli.site import local_cluster

    return local_cluster(timeout)
