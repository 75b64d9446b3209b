"""What `check` proves with traffic of its own: it sends some between the nodes and shows which way it took.

`training` sends gradients and shows whether RDMA carried them. `path` sends a marked RDMA stream and shows hop by hop
whether it used the lossless queue.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from railbed.bench.path.run import prove_path
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


def proof_of(what: str, cluster: Cluster, *, replayed: bool) -> Proof:
    """Return what proves something about a cluster; raise UsageError if that is impossible."""
    if what not in PROOFS:
        raise UsageError(f"{what!r} cannot be proved", hint="--prove takes `training` or `path`")
    if replayed:
        raise UsageError("a recording carries no traffic", hint="leave out --replay")
    if len(cluster.nodes) < 2:
        raise UsageError("proving needs at least two nodes", hint="use a --cluster FILE with at least two nodes")
    return PROOFS[what]


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
