"""Every node can reach the rendezvous port of its peers.

What
----
A TCP connection to `training.rendezvous_port` at each peer's rail address is accepted or refused within 2 s. Refused
is right while no job runs: the way is open and the port is free.

Why
---
The ranks meet over TCP before any RDMA is set up. Where a firewall drops these packets, the job does not fail: it
waits for its peers until a time-out many minutes later, and every GPU stands idle meanwhile.

Fix
---
Timed out: a firewall on the peer or between drops it; allow the rail's subnet there. No route: the peer's address or
route is missing, or a firewall rejects with "host prohibited" (firewalld does).

Source
------
PyTorch documentation, `init_process_group` (time-out of 10 to 30 minutes unless given); tcp(7) on how a connection is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.rule import Check, Judgement, fail, ok, skip, unknown
from railbed.check.shared.wording import counted, grouped, some
from railbed.check.site import NodeView
from railbed.probes import rendezvous
from railbed.probes.rendezvous import Attempt

OPEN = ("connected", "refused")
WORDS = {"timed_out": "timed out", "no_route": "no route"}


def judge(node: NodeView) -> Iterator[Judgement]:
    """Gather how the connections ended; nodes that do not answer SSH are told of by `reachable`."""
    port = node.site.cluster.training.rendezvous_port
    wanted = [name for name, _ in rendezvous.targets(node.site.cluster, node.name)]
    if not wanted:
        yield skip("no peer shares a rail with this node")
        return
    attempts = {attempt.node: attempt for attempt in node.read(rendezvous.PROBE).attempts}
    up = {other.name for other in node.site.nodes}
    tried = {name: attempts[name] for name in wanted if name in attempts and _counts(attempts[name], up)}
    closed = {name: WORDS[attempt.outcome] for name, attempt in tried.items() if attempt.outcome in WORDS}
    failed = [name for name, attempt in tried.items() if attempt.outcome == "failed"]
    failed += [name for name in wanted if name in up and name not in attempts]
    expected = f"TCP port {port} of {counted(len(tried), 'peer')} within reach"
    evidence = "\n".join(f"{name} {attempt.address}: {attempt.said}" for name, attempt in tried.items())
    if closed:
        observed = "; ".join(f"{some(names)}: {words}" for words, names in grouped(closed).items())
        yield fail(expected=expected, observed=observed, evidence=evidence)
    elif failed:
        yield unknown(expected=expected, observed=f"{some(failed)}: could not be tried", evidence=evidence)
    elif tried:
        yield ok(expected=expected, observed="within reach", evidence=evidence)
    else:
        yield skip("no peer is up")


def _counts(attempt: Attempt, up: set[str]) -> bool:
    return attempt.node in up or attempt.outcome in OPEN


CHECK = Check(
    name="rendezvous_reachable",
    title="rendezvous port of the peers is within reach",
    scope="node",
    needs=(rendezvous.PROBE,),
    judge=judge,
    doc=__doc__,
)
