"""railbed check --prove: judges the rules, then sends traffic between the nodes and shows which way it took.

`training` sends gradients and shows whether RDMA carried them. `path` sends a marked RDMA stream and shows hop by hop
whether it used the lossless queue.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from railbed.api.tally import conclude_check
from railbed.bench.path.run import prove_path
from railbed.check.rule import Check
from railbed.check.run import check
from railbed.cli.background.runs import jobs_in_progress
from railbed.cli.options import Options
from railbed.cli.run.perform import perform
from railbed.cli.screens.choose import make_screen
from railbed.errors import DeviceError, UsageError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Record, Verdict
from railbed.train import recipes
from railbed.train.network.verdict import CHECK, EXPECTED, WHY
from railbed.train.run import TrainRequest, train

Proof = Callable[[Cluster, Fleet], AsyncGenerator[Record, None]]
LOAD = ("steps=12", "traffic.gradient_bytes=2000000", "traffic.steps_per_second=6")
"""Two seconds, and slow enough for counters that a card updates only occasionally."""


def prove_command(
    what: str, cluster: Cluster | None, checks: Sequence[Check[Any]], options: Options, *, every_pair: bool
) -> int:
    """Check and prove; return the exit code."""
    if what not in PROOFS:
        raise UsageError(f"{what!r} cannot be proved", hint="--prove takes `training` or `path`")
    if options.replay:
        raise UsageError("a recording carries no traffic", hint="leave out --replay")
    if cluster is None or len(cluster.nodes) < 2:
        raise UsageError("proving needs at least two nodes", hint="use a --cluster FILE with at least two nodes")
    screen = make_screen(as_json=options.json, verbose=options.verbose, cluster=cluster, configurable=True)
    return perform(
        "check",
        cluster,
        options,
        lambda fleet: _work(cluster, fleet, checks, every_pair, PROOFS[what]),
        decide=conclude_check,
        screen=screen,
    )


async def _work(
    cluster: Cluster, fleet: Fleet, checks: Sequence[Check[Any]], every_pair: bool, prove: Proof
) -> AsyncGenerator[Record, None]:
    checking = check(cluster, fleet, checks, every_pair=every_pair, runs=jobs_in_progress())
    async with aclosing(checking) as records:
        async for record in records:
            yield record
    async with aclosing(prove(cluster, fleet)) as records:
        async for record in records:
            yield record


async def _prove_training(cluster: Cluster, fleet: Fleet) -> AsyncGenerator[Record, None]:
    """Train on a synthetic load and yield its records and verdict; if it cannot run, the verdict is unknown."""
    run = f"proof-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    recipe = recipes.load("traffic", LOAD).to_plain()
    request = TrainRequest(run=run, recipe=recipe, tokens=None, minimum=len(cluster.nodes), proves=True)
    yield events.Notice(message=f"sending gradients between {len(cluster.nodes)} nodes for two seconds")
    try:
        async with aclosing(train(cluster, fleet, request)) as records:
            async for record in records:
                yield record
    except DeviceError as error:
        yield Finding(
            check=CHECK,
            subject="cluster",
            verdict=Verdict.UNKNOWN,
            expected=EXPECTED,
            observed=f"the test did not run: {error.message}",
            why=WHY,
            remedy=error.hint or "the other findings may explain why",
        )


PROOFS: dict[str, Proof] = {"training": _prove_training, "path": prove_path}
