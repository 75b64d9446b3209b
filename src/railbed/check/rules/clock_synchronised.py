"""A time service synchronises the clock of every node.

What
----
The kernel's synchronised flag (`timedatectl`), or chrony's state if timedatectl is missing.

Why
---
Without a time service, clocks that agree today drift apart by seconds per week. A training run may last longer, and its
logs and counters from several nodes can then no longer be compared by time.

Fix
---
`apt install chrony` or `timedatectl set-ntp true`, on every node with the same servers. Open UDP port 123 to them.

Source
------
timedatectl(1), `NTPSynchronized`; adjtimex(2), STA_UNSYNC; chronyc(1), `tracking`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.model.fix import Fix, Persistence, as_steps
from railbed.probes import clock_sync
from railbed.rules.judgement import Judgement, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "synchronised by a time service"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the synchronised flag, and name the service behind it."""
    facts = node.read(clock_sync.PROBE)
    service = ", ".join(facts.services) or "no time service running"
    if facts.synchronised is None:
        yield unknown(expected=EXPECTED, observed=f"neither timedatectl nor chronyc reports a state; {service}")
    elif facts.synchronised:
        followed = f", follows {facts.source}" if facts.source else ""
        yield ok(expected=EXPECTED, observed=f"synchronised ({service}{followed})")
    else:
        fix = _fix(node) if facts.can_start and not facts.services else None
        remedy = "" if fix else _remedy(facts)
        yield warn(expected=EXPECTED, observed=f"not synchronised ({service})", remedy=remedy, fix=fix)


def _fix(node: NodeView) -> Fix:
    return Fix(
        device=node.name,
        apply=as_steps("timedatectl set-ntp true"),
        undo=as_steps("timedatectl set-ntp false"),
        persistence=Persistence.KEPT,
    )


def _remedy(facts: clock_sync.ClockSync) -> str:
    if "chronyd" in facts.services:
        return "see which servers answer: chronyc sources -v"
    return "" if facts.services else "timedatectl set-ntp true (or: apt install chrony)"


RULE = Rule(
    name="clock_synchronised",
    title="the clock is synchronised by a time service",
    scope="node",
    needs=(clock_sync.PROBE,),
    judge=judge,
    doc=__doc__,
    rank=50,
)
