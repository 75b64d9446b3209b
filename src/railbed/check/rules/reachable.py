"""Every node accepts our login and answers every command.

What
----
A connection to every node of the cluster file (this machine directly, others over SSH), and an answer to every command
within the time-out per node.

Why
---
Training starts its ranks over this connection; one node that does not answer keeps all others waiting in the rendezvous
until its time-out, ten minutes by default.

Fix
---
Try the login by hand: `ssh USER@HOST true`. A first contact needs the host key to be accepted once; a refused login
needs a key in the agent or in `login:`; a machine that stops halfway has a hanging disk, driver or network.

Source
------
PyTorch documentation, torch.distributed: `init_process_group` waits for all ranks until `timeout`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.rule import Check, Judgement, fail, ok, unknown
from railbed.check.site import Site
from railbed.model.reading import DeviceFacts

EXPECTED = "an answer"


def judge(site: Site) -> Iterator[Judgement]:
    """Judge whether each node answered, and each switch that was read."""
    switches = [name for name in site.cluster.switches if name in site.devices]
    for name in (*site.cluster.nodes, *switches):
        yield _judge_device(name, site.devices.get(name))


def _judge_device(name: str, facts: DeviceFacts | None) -> Judgement:
    if facts is None:
        return fail(subject=name, expected=EXPECTED, observed="was not queried")
    if facts.failure and facts.failure.excuse:
        return unknown(
            subject=name,
            expected=EXPECTED,
            observed=f"{facts.failure.excuse}; {facts.failure.reason}",
            remedy="check again when this machine has less to do",
        )
    if facts.failure:
        return fail(subject=name, expected=EXPECTED, observed=facts.failure.reason, remedy=facts.failure.remedy)
    return ok(subject=name, expected=EXPECTED, observed="answers")


CHECK = Check(
    name="reachable",
    title="every node answers",
    scope="cluster",
    needs=(),
    judge=judge,
    doc=__doc__,
    essential=True,
)
