"""An arm's change on the nodes: made before it and undone after it, whatever happens in between.

A guard on every node holds the undoing. It is ended by the end of its input, so it undoes also where railbed is killed
or the connection breaks; while it is there, a file says so.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from railbed.bench.experiment import Change
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.transport.base import Command

HOURS = 24 * 3600.0
WAIT_SECONDS = 15.0


class NotChanged(DeviceError):
    """An arm's change could not be made."""


def guard_script(cluster: Cluster, node: str, change: Change, mark: str) -> tuple[str, str]:
    """Return what keeps the undoing ready, and what makes the change once it is."""
    if change.mtu is not None:
        netdevs = [shlex.quote(port.netdev) for port in cluster.nodes[node].ports]
        kept = "\n".join(f"export old{at}=$(cat /sys/class/net/{name}/mtu)" for at, name in enumerate(netdevs))
        undo = "; ".join(f"ip link set dev {name} mtu $old{at}" for at, name in enumerate(netdevs))
        make = " && ".join(f"ip link set dev {name} mtu {change.mtu}" for name in netdevs) or ":"
    else:
        kept, undo, make = "", change.undo or ":", change.apply or ":"
    # Where nobody listens any more, a word of the shell would end it before it has undone anything. A session of its
    # own is not ended with the shell, however long the undoing takes on a busy node.
    undoing = shlex.quote(f"{undo}; rm -f {mark}")
    guard = (
        f"exec >/dev/null 2>&1\n{kept}\ntrap 'setsid sh -c \"$undoing\"' EXIT; trap exit TERM HUP INT\n"
        f"undoing={undoing}; : >{mark}; while :; do sleep 1; done\n"
    )
    return guard, f"until [ -e {mark} ]; do sleep 0.05; done; {make}"


@asynccontextmanager
async def changed(fleet: Fleet, cluster: Cluster, nodes: Sequence[str], change: Change | None) -> AsyncIterator[None]:
    """Make a change on nodes, and undo it; raises NotChanged where it cannot be made."""
    if change is None:
        yield
        return
    mark = f"/tmp/railbed-change-{secrets.token_hex(6)}"  # noqa: S108  (on the node, under a name that nobody knows)
    scripts = {node: guard_script(cluster, node, change, mark) for node in nodes}
    guards = {
        node: asyncio.create_task(
            fleet.ask(node, Command(key="guard", script=guard, timeout=HOURS, as_root=True, endless=True))
        )
        for node, (guard, _) in scripts.items()
    }
    try:
        await asyncio.gather(*(_run(fleet, node, "change", make) for node, (_, make) in scripts.items()))
        yield
    finally:
        for guard in guards.values():
            guard.cancel()
        await asyncio.gather(*guards.values(), return_exceptions=True)
        gone = f"while [ -e {mark} ]; do sleep 0.05; done"
        await asyncio.gather(*(_run(fleet, node, "undone", gone) for node in nodes), return_exceptions=True)


async def _run(fleet: Fleet, node: str, key: str, script: str) -> None:
    output = await fleet.ask(node, Command(key=key, script=script, timeout=WAIT_SECONDS, as_root=True))
    if output.exit != 0:
        raise NotChanged(f"{node} cannot be changed: {output.complaint or output.failure or f'exit {output.exit}'}")
