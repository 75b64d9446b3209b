"""Every node can reach the rendezvous port of its peers.

What
----
A TCP connection to `training.rendezvous_port` at the peers' rail addresses is accepted or refused within 4 s; without
that key, to port 45000, one of those that the kernel gives to ranks. Refused is fine while no job runs: the path is
open and the port is free. The peers are those of `mtu_path`, and time-outs are tested again in the same way.

Why
---
The ranks meet over TCP before any RDMA is set up. If a firewall drops these packets, the job does not fail: it
waits for its peers until a time-out many minutes later, and every GPU stays idle meanwhile.

Fix
---
Timed out: a firewall on the peer or on the path drops it; allow the rail's subnet there. No route: the peer's address
or route is missing, or a firewall rejects with "host prohibited" (firewalld does).

Source
------
PyTorch documentation, `init_process_group` (time-out of 10 to 30 minutes unless given); tcp(7) on how a connection is
refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from railbed.check.shared.port import group_names, some
from railbed.model.text import plural
from railbed.probes import rendezvous
from railbed.probes.rendezvous import ConnectTest
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

OPEN = ("connected", "refused")
WORDS = {"timed_out": "timed out", "no_route": "no route"}


def judge(node: NodeView) -> Iterator[Judgement]:
    """Gather the outcomes of the connections; the rule `reachable` reports nodes that do not answer SSH."""
    port = rendezvous.port_to_try(node.site.cluster)
    wanted = {pair.peer for pair in node.site.pairs.of(node.name)}
    attempts, excess = _attempts(node)
    up = node.site.nodes_by_name
    tried = {name: attempt for name, attempt in attempts.items() if _counts(attempt, up)}
    closed = {name: WORDS[attempt.outcome] for name, attempt in tried.items() if attempt.outcome in WORDS}
    failed = [name for name, attempt in tried.items() if attempt.outcome == "failed"]
    lacking = {name for name in wanted if name in up and name not in attempts}
    failed += [name for name in node.site.cluster.nodes if name in lacking] if lacking else []
    expected = f"TCP port {port} of {plural(len(tried), 'peer')} reachable"
    evidence = "\n".join(f"{name} {attempt.address}: {attempt.message}" for name, attempt in tried.items())
    if closed and excess:
        observed = f"{some(closed)}: no answer in time, but this node is {excess}"
        remedy = "check again when the node is less busy"
        yield unknown(expected=expected, observed=observed, remedy=remedy, evidence=evidence)
    elif closed:
        observed = "; ".join(f"{some(names)}: {words}" for words, names in group_names(closed).items())
        yield fail(expected=expected, observed=observed, evidence=evidence)
    elif failed:
        yield unknown(expected=expected, observed=f"{some(failed)}: could not be tried", evidence=evidence)
    elif tried:
        yield ok(expected=expected, observed="reachable", evidence=evidence)
    else:
        yield skip("no peer is up")


def _attempts(node: NodeView) -> tuple[dict[str, ConnectTest], str]:
    """Return the last connection to each peer, and why repeated time-outs prove nothing, if so."""
    first, again = node.read(rendezvous.PROBE), node.try_again(rendezvous.PROBE)
    attempts = first.attempts + (again.attempts if again else ())
    return {attempt.node: attempt for attempt in attempts}, again.load.excess if again and again.load else ""


def _counts(attempt: ConnectTest, up: Collection[str]) -> bool:
    return attempt.node in up or attempt.outcome in OPEN


def _unless(node: NodeView) -> str:
    has_peer = next(node.site.pairs.of(node.name), None) is not None
    return "" if has_peer else "no peer shares a rail with this node"


RULE = Rule(
    name="rendezvous_reachable",
    title="the peers' rendezvous port is reachable",
    scope="node",
    stage="rail",
    needs=(rendezvous.PROBE,),
    judge=judge,
    unless=_unless,
    doc=__doc__,
    essential=True,
)
