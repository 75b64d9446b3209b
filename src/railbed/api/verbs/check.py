"""`railbed.check`: is the cluster right?"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from railbed.api.clusters import ClusterLike, cluster_of, cluster_words
from railbed.api.reach import Reach
from railbed.api.running import Invocation
from railbed.api.stream import RecordStream
from railbed.api.tally import conclude_check
from railbed.catalog import choose
from railbed.check.book import CHECK_BOOK, usual_checks, without_subject
from railbed.check.checklist import ChecklistItem, list_boxes
from railbed.check.run import check as check_nodes
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Record
from railbed.probes.outputs import all_probes
from railbed.rules.rule import Rule
from railbed.store import Store, is_own_folder, list_runs, read_records
from railbed.store.find import jobs_in_progress

MOST_RUNS = 50
"""Runs in which findings for a list to tick are looked for."""


def check(
    cluster: ClusterLike = None,
    *,
    rules: Sequence[str] = (),
    prove: Literal["training", "path"] | str | None = None,  # noqa: PYI051  (the values that editors suggest)
    every_pair: bool = False,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Check a cluster: what is right, what is wrong, why it matters and what to do about it.

    Yields a finding for each rule and subject, and an event for each device that was read.

    `cluster` is a cluster, the path of its file, or None for `cluster.yaml` in this folder, else this machine.
    `rules` chooses rules by name. `prove` also sends traffic: `training` shows what carries gradients, `path` follows a
    marked stream hop by hop. `every_pair` tests the path between every pair of nodes, even on a rail with many.
    """
    reach, store = reach or Reach(), store or Store()
    named = [rule_named(name) for name in rules]
    site = cluster_of(cluster, reach)
    pointless = without_subject(named, site)
    # A full check of a cluster with rails also records probes that no rule needs, as evidence for bug reports.
    extra = () if rules or prove or not any(site.ports()) else all_probes().values()
    proof = None
    if prove is not None:
        # Imported here because training takes as long to load as a small cluster takes to answer.
        from railbed.api.verbs.prove import proof_of

        proof = proof_of(prove, site, replayed=reach.replay is not None)

    async def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        runs = {} if reach.replay else jobs_in_progress(store.folder)
        checking = check_nodes(
            site, fleet, named or usual_checks(), extra_probes=extra, every_pair=every_pair, runs=runs
        )
        async with aclosing(checking) as records:
            async for record in records:
                yield record
        for finding in without_subject(named, site):
            yield finding
        if proof:
            async with aclosing(proof(site, fleet)) as records:
                async for record in records:
                    yield record

    words = ["check", *rules, *(["--prove", prove] if prove else []), *cluster_words(cluster)]
    reason = pointless[0].observed if named and len(pointless) == len(named) else ""
    decide = partial(conclude_check, without_subject=reason)
    invocation = Invocation(verb="check", cluster=site, work=work, decide=decide)
    return RecordStream(invocation, reach, store, words)


def checklist(
    cluster: ClusterLike = None,
    *,
    rules: Sequence[str] = (),
    reach: Reach | None = None,
    store: Store | None = None,
) -> list[ChecklistItem]:
    """Return a list to tick while a cluster is brought up: what a person does by hand, and what `check` judges.

    Nothing is read from devices: the newest checks of the cluster in the folder of runs decide what is ticked.
    """
    site = cluster_of(cluster, reach or Reach())
    named = [rule_named(name) for name in rules]
    return list_boxes(site, _newest_findings(site, (store or Store()).folder), named)


def _newest_findings(cluster: Cluster, folder: Path) -> list[Finding]:
    """Return the newest findings about a cluster; what `configure` judged afterwards is newer than the check before."""
    newest: dict[tuple[str, str], list[Finding]] = {}
    judged: set[str] = set()
    runs = [run for run in list_runs(folder) if run.verb in ("check", "configure") and run.cluster == cluster.name]
    for run in runs[:MOST_RUNS]:
        if run.status != "done" or not is_own_folder(folder / run.id):
            continue
        of_run: dict[tuple[str, str], list[Finding]] = {}
        for finding in _findings_of(folder / run.id):
            of_run.setdefault((finding.check, finding.subject), []).append(finding)
        newest = {**{key: same for key, same in of_run.items() if key[0] not in judged}, **newest}
        # A check judges every subject of its rules; configure may have judged only the devices that it changed.
        judged |= {check for check, _ in of_run} if run.verb == "check" else set()
    return [finding for same in newest.values() for finding in same]


def _findings_of(folder: Path) -> Iterator[Finding]:
    return (record for record in read_records(folder, Finding) if isinstance(record, Finding))


def rule_named(name: str) -> Rule[Any]:
    """Return a rule of check; raise UsageError, with similar names, if there is none."""
    return choose(CHECK_BOOK.rules, name, kind="rule", listing="docs/reference/checks.md lists them")
