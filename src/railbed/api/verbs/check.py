"""`railbed.check`: is the cluster right?"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

from railbed.api.clusters import ClusterLike, cluster_of, cluster_words
from railbed.api.reach import Reach
from railbed.api.running import Invocation
from railbed.api.stream import RecordStream
from railbed.api.tally import conclude_check
from railbed.catalog import choose
from railbed.check.book import CHECK_BOOK, usual_checks, without_subject
from railbed.check.run import check as check_nodes
from railbed.fleet import Fleet
from railbed.model.record import Record
from railbed.probes.outputs import all_probes
from railbed.rules.rule import Rule
from railbed.store import Store
from railbed.store.find import jobs_in_progress


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


def rule_named(name: str) -> Rule[Any]:
    """Return a rule of check; raise UsageError, with similar names, if there is none."""
    return choose(CHECK_BOOK.rules, name, kind="rule", listing="docs/reference/checks.md lists them")
