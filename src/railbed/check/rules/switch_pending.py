"""No change to the switch was left unfinished.

What
----
The switch has no checkpoint `railbed-changing`: railbed creates it before it changes a switch,
and removes it afterwards.

Why
---
A switch whose change was cut short may have half of its QoS configuration: classes without a policy, or PFC on some
ports only. Training may run on it, at a fraction of its speed.

Fix
---
If the run that the finding names is still running, wait for it. Otherwise `railbed configure --undo RUN` restores the
state before it, on the machine and in the folder where it ran; `railbed configure --apply` there makes the rest of the
changes. An experiment, or a switch that cannot wait, is restored by hand with the commands of the finding.

Source
------
railbed, `fleet/switch_change.py`: the checkpoint is a lock, since no two can have the same name.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.parsing.nexus.switch_lock import describe_lock, way_out
from railbed.probes.nexus import checkpoints
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchView

EXPECTED = "no change pending"


def judge(switch: SwitchView) -> Iterator[Judgement]:
    """Look for the checkpoint that marks a change."""
    facts = switch.read(checkpoints.PROBE)
    if facts.lock is None:
        yield ok(expected=EXPECTED, observed="none")
        return
    yield fail(
        expected=EXPECTED,
        observed=describe_lock(facts.holder),
        remedy=way_out(facts.holder),
        evidence=f"{facts.lock.name}, created {facts.lock.created}",
    )


RULE = Rule(
    name="switch_pending",
    title="no unfinished change of the switch",
    scope="switch",
    needs=(checkpoints.PROBE,),
    judge=judge,
    doc=__doc__,
)
