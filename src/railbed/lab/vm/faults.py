"""Applies the declared faults to the nodes: power and links through QEMU, queues and MTU inside, over SSH.

Nodes do not store queues and MTU: a node that reboots loses them until the next fault or heal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from railbed.fleet import Fleet
from railbed.lab.host import HostFault, together
from railbed.lab.model import HOST_MTU, LabNode, StoredLab
from railbed.lab.vm.qemu import machine, qmp
from railbed.lab.vm.qemu.hardware import MONITOR, card_name
from railbed.model.cluster import Login
from railbed.model.fix import mtu_command
from railbed.transport.base import Command, Target
from railbed.transport.connect import live_connector

MARK_RATE = 20e6
"""Bit/s from which a rail marks by default: an emulated processor does not send much faster."""
MARK_QUEUE = "red limit 300000 min 20000 max 60000 avpkt 4000 burst 8 probability 0.2 bandwidth {rate:.0f}bit ecn"
QUEUE_SECONDS = 0.1
SMALLEST_BURST = 65536
SMALLEST_QUEUE = 400000
ANSWER_SECONDS = 300.0
"""Minutes, since a busy machine emulates others slowly, and a node that was frozen has to catch up first."""


async def settle(lab: StoredLab, targets: Iterable[str]) -> None:
    """Apply faults to power and links of all nodes, and inside the named nodes, or inside all for a rail."""
    machine.start_hub(lab)
    named = set(targets)
    renewed = await together(_settle_power(lab, node) for node in lab.nodes if node.name in named)
    await settle_links(lab)
    scripts = {}
    for node in lab.nodes:
        if lab.of("freeze", node.name) or not machine.is_running(lab, node):
            continue
        rails = lab.rails if node.name in named else {name: rail for name, rail in lab.rails.items() if name in named}
        scripts[node.name] = "\n".join(_lines(lab, node, rails, clock=node.name in renewed))
    await run_on_nodes(lab, {name: script for name, script in scripts.items() if script})


async def shape(lab: StoredLab) -> None:
    """Give the rails of new nodes the speed and delay of the lab."""
    if lab.spec.rate is not None or lab.spec.delay is not None:
        await run_on_nodes(lab, {node.name: "\n".join(_lines(lab, node, lab.rails, clock=False)) for node in lab.nodes})


async def settle_links(lab: StoredLab) -> None:
    """Connect or cut the network cards of all running nodes."""
    await together(_settle_node_links(lab, node) for node in lab.nodes if machine.is_running(lab, node))


async def _settle_node_links(lab: StoredLab, node: LabNode) -> None:
    async with qmp.connect_qmp(machine.node_folder(lab, node) / MONITOR) as monitor:
        for rail in range(lab.spec.rails):
            await monitor.execute("set_link", name=card_name(rail), up=not lab.is_cut(node, rail))


async def _settle_power(lab: StoredLab, node: LabNode) -> str:
    """Turn a node off, freeze it or start it; return its name if its clock stood still meanwhile."""
    if lab.of("kill", node.name):
        await machine.end_node(lab, node)
        return ""
    if not machine.is_running(lab, node):
        await machine.boot(lab, node)
    async with qmp.connect_qmp(machine.node_folder(lab, node) / MONITOR) as monitor:
        was_frozen = (await monitor.execute("query-status"))["status"] == "paused"
        frozen = bool(lab.of("freeze", node.name))
        if frozen:
            await monitor.execute("stop")
            machine.hide_sockets(lab, node)
        elif was_frozen:
            machine.show_sockets(lab, node)
            await monitor.execute("cont")
    return node.name if was_frozen and not frozen else ""


def _lines(lab: StoredLab, node: LabNode, rails: Iterable[str], *, clock: bool) -> Iterator[str]:
    """Yield the commands that apply speed, delay and faults to the rails of a node."""
    if clock:
        yield "python3 -S -E /usr/lib/railbed/node.py clock"
    fault = lab.of("mtu", node.name)
    for name in rails:
        yield mtu_command(name, int(fault.value or HOST_MTU) if fault else HOST_MTU)
        yield f"tc qdisc del dev {name} root 2>/dev/null || :"
        yield from queues(lab, node, name)


def queues(lab: StoredLab, node: LabNode, rail: str) -> Iterator[str]:
    """Yield the queues of a rail, each inside the one before: loss and delay, then the rate, then marks."""
    parent = "root"
    lose, slow, mark = lab.of("lose", rail), lab.find_limit(node, lab.rails[rail]), lab.of("mark", rail)
    if lose or lab.spec.delay is not None:
        loss = f" loss {lose.value:g}%" if lose else ""
        delay = f" delay {lab.spec.delay * 1e6:.0f}us" if lab.spec.delay is not None else ""
        yield f"tc qdisc add dev {rail} {parent} handle 1: netem limit 10000{delay}{loss}"
        parent = "parent 1:1"
    rates = [slow or lab.spec.rate, (mark.value or MARK_RATE) if mark else None]
    rate = min((rate for rate in rates if rate is not None), default=None)
    if rate is not None:
        burst, limit = max(SMALLEST_BURST, int(rate / 8 / 250)), max(SMALLEST_QUEUE, int(rate / 8 * QUEUE_SECONDS))
        yield f"tc qdisc add dev {rail} {parent} handle 2: tbf rate {rate:.0f}bit burst {burst} limit {limit}"
        if mark:
            yield f"tc qdisc add dev {rail} parent 2:1 handle 3: {MARK_QUEUE.format(rate=rate)}"


async def run_on_nodes(lab: StoredLab, scripts: dict[str, str]) -> None:
    """Run a script on each node; the first that fails is the error."""
    if not scripts:
        return
    login = Login(user="root", port=machine.PORT, key=str(lab.key), known_hosts=str(lab.known_hosts))
    targets = [Target(name=node.name, host=machine.door(node), login=login) for node in lab.nodes]
    commands = {
        name: [Command(key="settle", script=f"set -e\n{script}", timeout=ANSWER_SECONDS / 2)]
        for name, script in scripts.items()
    }
    async with live_connector() as connect, Fleet(targets, connect, timeout=ANSWER_SECONDS) as fleet:
        async for answer in fleet.run(commands):
            if answer.failure:
                raise HostFault(f"{answer.device}: {answer.failure.reason}", hint=answer.failure.remedy)
            for output in answer.outputs:
                if output.exit != 0:
                    raise HostFault(f"{answer.device}: {output.trouble}")
