"""Nothing listens on the rendezvous port, if the cluster file sets one.

What
----
`ss` shows no listening socket on the port of `training.rendezvous_port`. Without that key the ranks take any free port,
and the rule is skipped. A run of railbed that uses the port is named; it only prevents another run on this node
meanwhile.

Why
---
The ranks meet on this TCP port of a node. While another program holds it there, they meet on another node; if all
nodes have such a program, training ends.

Fix
---
Wait for a run that is in progress, or stop it (`railbed train --stop RUN`). End any other program that holds the port
(`ss -ltnp` names it), choose another `rendezvous_port` in the cluster file, or remove it there: then nobody can know
and hold the port beforehand.

Source
------
ss(8); ip(7) on `ip_local_port_range`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.nodes import advise_on_run, describe_run, runs_on
from railbed.check.shared.port import some
from railbed.model.record import WRONG, Finding
from railbed.probes import agents, listening
from railbed.probes.agents import RunningAgent
from railbed.probes.listening import Listener
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look for a listener on any address: it prevents a new listener on all addresses."""
    port = node.site.cluster.training.rendezvous_port
    assert port is not None, "see `_unless`"
    listeners = node.read(listening.PROBE).on(port)
    expected = f"TCP port {port} is free"
    if not listeners:
        yield ok(expected=expected, observed="free")
        return
    holders = some([_holder(listener) for listener in listeners], 2)
    strangers = [listener for listener in listeners if not _run_of(node, listener)]
    by_hand = f"`ss -ltnp 'sport = :{port}'`"
    if run := _run_of(node, listeners[0]) if not strangers else None:
        observed, remedy = describe_run(node, run), advise_on_run(node, run)
        yield warn(expected=expected, observed=observed, remedy=remedy, evidence=holders)
    elif (runs := runs_on(node)) and not any(listener.pid for listener in strangers):
        observed = f"{holders} that this account cannot see, and {describe_run(node, runs[0])}"
        remedy = f"{advise_on_run(node, runs[0])}; root sees whether the port belongs to it: {by_hand}"
        yield warn(expected=expected, observed=observed, remedy=remedy)
    else:
        pid = next((listener.pid for listener in strangers if listener.pid), None)
        remedy = f"look at it with `ps -fp {pid}` and end it with `kill {pid}`" if pid else by_hand.strip("`")
        yield fail(expected=expected, observed=holders, remedy=remedy)


def is_taken(finding: Finding) -> bool:
    """Whether the finding is that the port is in use, be it by a run: another run cannot start then."""
    return finding.check == RULE.name and finding.verdict in WRONG


def _run_of(node: NodeView, listener: Listener) -> RunningAgent | None:
    """Return the run that a listener belongs to."""
    return next((run for run in runs_on(node) if listener.pid in run.pids), None)


def _holder(listener: Listener) -> str:
    who = f"{listener.process} (pid {listener.pid}) " if listener.process else "a program "
    return f"{who}on {listener.address}"


def _unless(node: NodeView) -> str:
    return "the ranks take any free port" if node.site.cluster.training.rendezvous_port is None else ""


RULE = Rule(
    name="rendezvous_free",
    title="rendezvous port is free",
    scope="node",
    stage="environment",
    needs=(listening.PROBE, agents.PROBE),
    judge=judge,
    unless=_unless,
    doc=__doc__,
    essential=True,
)
