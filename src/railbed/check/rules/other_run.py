"""No other run of railbed uses a node.

What
----
No process on the node is an agent of railbed, which every training and every collective benchmark has on each of its
nodes. Inside a Slurm job the rule is skipped: jobs may share a node.

Why
---
Two runs on one node share its processors, GPUs, memory and rails: both are slow, and neither measures anything
meaningful. `train` does not start meanwhile, unless `--no-check` is given.

Fix
---
Wait for the run, or have it stopped (`railbed train --stop RUN`); the finding names it and the account that it runs
under.

Source
------
proc(5): every account can read the command lines of all processes, unless /proc is mounted with `hidepid`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.nodes import advise_on_run, describe_run
from railbed.check.shared.port import some
from railbed.model.record import WRONG, Finding
from railbed.probes import agents
from railbed.rules.judgement import Judgement, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look for agents on the node."""
    runs = node.read(agents.PROBE).agents
    expected = "no other run"
    if not runs:
        yield ok(expected=expected, observed="none")
        return
    # A run may have several agents on a machine that stands for several nodes.
    observed = some(dict.fromkeys(describe_run(node, run) for run in runs), 2)
    yield warn(expected=expected, observed=observed, remedy=advise_on_run(node, runs[0]))


def is_present(finding: Finding) -> bool:
    """Whether the finding is that a run uses the node: another run cannot start then."""
    return finding.check == RULE.name and finding.verdict in WRONG


def _unless(node: NodeView) -> str:
    in_job = node.node.login.over(node.site.cluster.login).slurm_job
    return "a Slurm job, which may share its nodes" if in_job else ""


RULE = Rule(
    name="other_run",
    title="no other run uses the node",
    scope="node",
    needs=(agents.PROBE,),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
