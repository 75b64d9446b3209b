"""A card does not look at the DSCP of its packets.

What
----
A port sends RDMA in priority 0, although the packets are marked: the switch, which does look at DSCP, sends them from
its lossless queue. Or the run's own check had found that the card trusts PCP.

Why
---
Without a VLAN there is no PCP, so the card puts everything in priority 0. Pauses of the lossless priority do not stop
it, and the switch drops what it cannot hold.

Fix
---
Set the trust state to DSCP: `railbed check dscp_trust` shows it, `railbed configure` the change. Deleting the last
DSCP mapping of a card also switches its trust back to PCP.

Source
------
NVIDIA, mlnx_qos (`Priority trust state: pcp`); Linux kernel, dcb app.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import find_unprotected
from railbed.model.text import size
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Find RDMA in priority 0 that the switch, or the run's own check, shows to be marked."""
    trusts_pcp = any(finding.subject == port.subject for finding in port.site.run.wrong("dscp_trust"))
    for case in find_unprotected(port):
        marked = case.lossless_queue is not None and case.lossless_queue >= case.total / 2
        if not marked and not trusts_pcp:
            continue
        how = "the switch sends it from its lossless queue" if marked else "its check had found that it trusts PCP"
        yield fail(
            f"the card put {size(case.total)} of RDMA in priority 0; {how}",
            case.default,
            case.lossless,
            span=case.span,
            certainty="certain" if trusts_pcp else "likely",
            expected="the card trusts DSCP",
        )


RULE = Rule(
    name="mark_trust",
    title="a card ignores DSCP",
    scope="port",
    needs=("rdma_tx_bytes", "priority_tx_bytes"),
    judge=judge,
    doc=__doc__,
)
