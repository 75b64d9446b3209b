"""Interrupts of a card are taken by processors near it.

What
----
On a machine with several NUMA nodes, at least half of the interrupts that could be are taken by processors of the
card's own node, and not all by one processor. Virtual machines are skipped: their processors are not those of the
host.

Why
---
An interrupt on a far processor fetches every completion over the link between the sockets, and all on one processor
wait for each other. NCCL polls instead of waiting for RDMA, but TCP (NCCL without RDMA, storage, the rendezvous) does
not.

Fix
---
`set_irq_affinity_bynode.sh NODE IF` (NVIDIA's tools), or write the processors to /proc/irq/N/smp_affinity_list. Stop
irqbalance first, or exclude these interrupts (`--banirq`, or a policy script): it moves them again.

Source
------
Linux kernel documentation, core-api/irq/irq-affinity; NVIDIA MLNX_OFED documentation, performance tuning (IRQ
affinity).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from railbed.probes import cpu, interrupts, pcie
from railbed.probes.interrupts import CardInterrupts
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "interrupts on processors near the card"
FEW = 4
"""Up to this many interrupts, it does not matter where they are."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare where the interrupts of the card go with the processors near it."""
    facts = port.read(interrupts.PROBE)
    address, card = port.read(pcie.PROBE).card_of(port.port.netdev, port.port.rdma)
    processors = port.node.try_read(cpu.PROBE)
    own = facts.cards.get(address)
    if card is None or own is None:
        yield skip("no PCIe card with interrupts: a virtual device", expected=EXPECTED)
    elif processors is not None and processors.hypervisor:
        yield skip("a virtual machine: its processors are not those of the host", expected=EXPECTED)
    elif processors is None or processors.numa_nodes is None or own.numa_node is None:
        yield skip("the machine does not show which processors are near the card", expected=EXPECTED)
    elif own.count <= FEW:
        yield skip(f"only {own.count} interrupts", expected=EXPECTED)
    else:
        yield _judge_card(port, own, facts.balancer, processors)


def _judge_card(port: PortView, own: CardInterrupts, balancer: bool | None, machine: cpu.Cpu) -> Judgement:
    moves = {True: "irqbalance moves interrupts", False: "irqbalance does not run"}.get(balancer or False, "")
    netdev = shlex.quote(port.port.netdev)
    stop = "systemctl disable --now irqbalance; " if balancer else ""
    remedy = f"{stop}set_irq_affinity_bynode.sh {own.numa_node} {netdev}"
    if not own.near:
        return unknown(expected=EXPECTED, observed=f"the processors of NUMA node {own.numa_node} are not shown")
    if machine.threads > 1 and own.taken_by_busiest == own.count:
        observed = f"all {own.count} interrupts on processor {own.busiest}"
        return warn(observed, expected=EXPECTED, remedy=remedy, evidence=moves)
    if (machine.numa_nodes or 1) < 2:
        return ok(expected=EXPECTED, observed="one NUMA node")
    observed = f"{own.taken_near} of {own.count} interrupts on NUMA node {own.numa_node}"
    if 2 * own.taken_near < min(own.count, own.near):
        return warn(observed, expected=EXPECTED, remedy=remedy, evidence=moves)
    return ok(expected=EXPECTED, observed=observed, evidence=moves)


RULE = Rule(
    name="interrupt_affinity",
    title="interrupts near the card",
    scope="port",
    stage="host",
    needs=(interrupts.PROBE, pcie.PROBE, cpu.PROBE),
    judge=judge,
    doc=__doc__,
)
