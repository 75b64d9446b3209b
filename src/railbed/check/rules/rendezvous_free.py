"""Nothing listens on the rendezvous port.

What
----
`ss` shows no listening socket on the port of `training.rendezvous_port` (29500 unless the cluster file sets another).

Why
---
The ranks meet on this TCP port. If a process is using it already (usually a rank left over from the last run), the new
job dies with "address already in use", or worse: its ranks join the old job and hang.

Fix
---
End the program that holds the port (`ss -ltnp` names it), or choose another `rendezvous_port` in the cluster file.

Source
------
PyTorch documentation, torchrun (`--rdzv-endpoint`, `MASTER_PORT`); ss(8).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.rule import Check, Judgement, fail, ok
from railbed.check.shared.wording import some
from railbed.check.site import NodeView
from railbed.probes import listening
from railbed.probes.listening import Listener


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look for a listener on any address: it prevents a new listener on all addresses."""
    port = node.site.cluster.training.rendezvous_port
    listeners = node.read(listening.PROBE).on(port)
    expected = f"TCP port {port} is free"
    if not listeners:
        yield ok(expected=expected, observed="free")
        return
    pid = next((listener.pid for listener in listeners if listener.pid), None)
    yield fail(
        expected=expected,
        observed=some([_holder(listener) for listener in listeners], 2),
        remedy=f"look at it with `ps -fp {pid}` and end it with `kill {pid}`" if pid else f"ss -ltnp 'sport = :{port}'",
    )


def _holder(listener: Listener) -> str:
    who = f"{listener.process} (pid {listener.pid}) " if listener.process else "a program "
    return f"{who}on {listener.address}"


CHECK = Check(
    name="rendezvous_free",
    title="rendezvous port is free",
    scope="node",
    needs=(listening.PROBE,),
    judge=judge,
    doc=__doc__,
    essential=True,
)
