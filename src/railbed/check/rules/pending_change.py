"""No change to the node was left unfinished.

What
----
The lock that railbed holds on a node during a change is free, and no guard left it behind.

Why
---
A node whose change was cut short may have a mix of old and new settings: an MTU without its address, or PFC without the
DSCP map. Training may run on it, at a fraction of its speed.

Fix
---
`railbed configure --undo RUN` restores the state before the run that the finding names; `railbed configure --apply`
makes the rest of the changes. If an experiment left it, undo the change by hand (the command is in that run's finding
`bench_undone`) and empty the lock. If the change is in progress, wait for it.

Source
------
railbed, `fleet/change.py`: a guard on the node undoes a change that was not confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.probes import pending_change
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "no change pending"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the lock of changes."""
    facts = node.read(pending_change.PROBE)
    match facts.state:
        case "held":
            yield warn(expected=EXPECTED, observed=f"being changed by {facts.holder}", remedy="wait until it is done")
        case "abandoned":
            yield fail(
                expected=EXPECTED,
                observed=f"half-changed by {facts.holder}",
                evidence=facts.trouble,
                remedy=_remedy(facts),
            )
        case _:
            yield ok(expected=EXPECTED, observed="none")


def _remedy(facts: pending_change.PendingChange) -> str:
    if not facts.holder.startswith("run "):
        return f"undo it by hand as that run's finding bench_undone shows, then `truncate -s 0 {pending_change.LOCK}`"
    run = facts.holder.removeprefix("run ").partition(",")[0]
    return f"`railbed configure --undo {run}` restores it, `railbed configure --apply` makes the rest of the changes"


RULE = Rule(
    name="pending_change",
    title="no unfinished change",
    scope="node",
    needs=(pending_change.PROBE,),
    judge=judge,
    doc=__doc__,
)
