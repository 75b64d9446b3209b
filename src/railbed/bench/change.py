"""An arm's change on the nodes: made before it and undone after it, whatever happens in between.

A guard on every node holds the undoing, in a session of its own: the end of our shell there is the end of its input,
and then it undoes. So it does where railbed is killed or the connection breaks, and nothing that ends the shell ends
it. While there is something to undo, a file says so.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from railbed.bench.compare.experiment import Change
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.transport.base import Command

MARK = "/tmp/railbed-change-"  # noqa: S108  (on the node, under a name that nobody knows)
DAY = 24 * 3600
MAKE_SECONDS = 30.0
UNDO_SECONDS = 60.0
"""A busy node may be late, and whoever comes next takes what is there for what was there before."""


class NotChanged(DeviceError):
    """An arm's change could not be made."""


class NotUndone(DeviceError):
    """An arm's change may still be there: on these nodes, for these reasons."""

    def __init__(self, reasons: Mapping[str, str], undo: str) -> None:
        told = "; ".join(f"{node}: {reason}" for node, reason in reasons.items())
        super().__init__(
            f"the change of an arm was not seen undone: {told}", hint=f"look there, and undo it by hand: {undo}"
        )
        self.reasons = reasons


def guard_script(cluster: Cluster, node: str, change: Change, mark: str) -> tuple[str, str]:
    """Return what keeps the undoing ready, and what makes the change once it is."""
    kept, undo, make = "", change.undo or ":", change.apply or ":"
    if change.mtu is not None:
        netdevs = [shlex.quote(port.netdev) for port in cluster.nodes[node].ports]
        kept = "\n".join(f"old{at}=$(cat /sys/class/net/{name}/mtu)" for at, name in enumerate(netdevs))
        undo = "\n".join(["code=0", *(f"{_mtu(name, f'$old{at}')} || code=1" for at, name in enumerate(netdevs))])
        undo += "\nexit $code"
        make = " && ".join(_mtu(name, str(change.mtu)) for name in netdevs) or ":"
    undoing = f"{kept}\n: >{mark}\ncat\nif (\n{undo}\n) >{mark} 2>&1; then rm {mark}; else mv {mark} {mark}.failed; fi"
    # Where nobody listens any more, a word of the shell would end it before it has undone anything.
    guard = f"exec 3<&- >/dev/null 2>&1\nsleep {DAY} | setsid sh -c {shlex.quote(undoing)}\n"
    return guard, f"until [ -e {mark} ]; do sleep 0.05; done; {make}"


def _mtu(netdev: str, value: str) -> str:
    return f"ip link set dev {netdev} mtu {value}"


@asynccontextmanager
async def changed(fleet: Fleet, cluster: Cluster, nodes: Sequence[str], change: Change | None) -> AsyncIterator[None]:
    """Make a change on nodes, and undo it; raises NotChanged where it cannot be made, and NotUndone."""
    if change is None:
        yield
        return
    marks = {node: f"{MARK}{secrets.token_hex(6)}" for node in nodes}
    scripts = {node: guard_script(cluster, node, change, mark) for node, mark in marks.items()}
    guards = {
        node: asyncio.create_task(
            fleet.ask(node, Command(key="guard", script=guard, timeout=DAY, as_root=True, endless=True))
        )
        for node, (guard, _) in scripts.items()
    }
    try:
        await asyncio.gather(*(_made(fleet, node, make) for node, (_, make) in scripts.items()))
        yield
    finally:
        for guard in guards.values():
            guard.cancel()
        await asyncio.gather(*guards.values(), return_exceptions=True)
        told = await asyncio.gather(*(_undone(fleet, node, mark) for node, mark in marks.items()))
        if reasons := {node: why for node, why in zip(marks, told, strict=True) if why}:
            raise NotUndone(reasons, change.undo or "`ip link set dev NAME mtu` as it was")


async def _made(fleet: Fleet, node: str, script: str) -> None:
    command = Command(key="change", script=script, timeout=MAKE_SECONDS, as_root=True)
    output = await fleet.ask(node, command)
    if output.exit != 0:
        raise NotChanged(f"{node} cannot be changed: {output.trouble}")


async def _undone(fleet: Fleet, node: str, mark: str) -> str:
    """Wait until a change is undone; return why it is not."""
    failed = f"[ ! -e {mark}.failed ] || {{ cat {mark}.failed >&2; rm {mark}.failed; exit 1; }}"
    script = f"while [ -e {mark} ]; do sleep 0.05; done; {failed}"
    look = Command(key="undone", script=script, timeout=UNDO_SECONDS, as_root=True)
    try:
        output = await fleet.ask(node, look)
    except DeviceError as error:
        return error.message
    return "" if output.exit == 0 else output.trouble
