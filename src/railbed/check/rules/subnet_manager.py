"""On InfiniBand, a subnet manager has set up the port.

What
----
If the link layer is InfiniBand, the port is ACTIVE and has the address of a subnet manager (`sm_lid` not zero).
Ethernet (RoCE) has none and is skipped.

Why
---
Without a subnet manager an InfiniBand port stays in INIT, without address and routes: NCCL does not use it, and
training falls back to TCP or does not start. If it has died, running jobs continue until the next link change.

Fix
---
Start one in the fabric: on a managed switch, or `opensm` on a node (`systemctl start opensm`). `sminfo` shows which one
answers.

Source
------
InfiniBand Architecture Specification, volume 1, chapter 14; rdma-core, ibstat(8) and sminfo(8).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import no_rdma, not_there, rdma_port
from railbed.probes import infiniband
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the subnet manager's address and the port's state."""
    expected = "ACTIVE, with a subnet manager"
    own = rdma_port(port)
    if own is None:
        yield not_there(port, expected)
    elif own.link_layer is None:
        yield unknown(expected=expected, observed="the device does not report its link layer")
    elif own.link_layer != "InfiniBand":
        yield skip(f"{own.link_layer} link: no subnet manager", expected=expected)
    elif own.sm_lid is None:
        yield unknown(expected=expected, observed="the device does not report its sm_lid")
    elif own.sm_lid == 0:
        yield fail(expected=expected, observed=f"{own.state or 'no state'}, no subnet manager (sm_lid 0)")
    elif own.state != "ACTIVE":
        yield fail(expected=expected, observed=f"{own.state or 'no state'}, sm_lid {own.sm_lid}")
    else:
        yield ok(expected=expected, observed=f"ACTIVE, sm_lid {own.sm_lid}")


RULE = Rule(
    name="subnet_manager",
    title="subnet manager on InfiniBand",
    scope="RDMA port",
    needs=(infiniband.PROBE,),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
