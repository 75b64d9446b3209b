"""Congestion control (DCQCN) is on for the policy's priority, on both of its sides.

What
----
OFED: `ecn/roce_np/enable` (notifies the sender of marked packets) and `ecn/roce_rp/enable` (slows down) are 1 for the
policy's priority. The inbox driver has no such setting: DCQCN is known to be on once the card has counted CNPs
sent and handled, and unknown until then. So it is with Intel's cards; Broadcom's do not count what they obey. It is a
warning if the firmware starts with it off and nothing turns it on at boot, as far as `mlxconfig` shows that.

Why
---
With ECN the switch marks packets before its queue is full, and DCQCN makes the senders slow down. Off on one side, the
marks have no effect: many nodes sending to one fill the queue on every all-reduce, PFC stops the ports before it, and
the stop spreads to jobs that share the fabric.

Fix
---
OFED: `echo 1 > /sys/class/net/IF/ecn/roce_np/enable/3`, the same with `roce_rp`. Permanently, or with the inbox driver:
`mlxconfig -d DEVICE set ROCE_CC_PRIO_MASK_P1=255`. Broadcom's own driver: `mkdir -p /sys/kernel/config/bnxt_re/DEVICE`,
and below it in `ports/1/cc` `echo -n 0x1 > ecn_enable; echo -n 0x1 > apply`, or `niccli`. Intel's: `mkdir -p
/sys/kernel/config/irdma/DEVICE`, `echo 1 > roce_dcqcn_enable` below it. ConnectX-3 and Soft-RoCE do not have it.

Source
------
Zhu et al., Congestion Control for Large-Scale RDMA Deployments (SIGCOMM 2015); Linux kernel, mlx5 cong.c; Broadcom,
bnxt_setupcc.sh; Intel, Ethernet 800 Series Linux flow control guide for RDMA (congestion control parameter settings).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from railbed.check.shared.boot import SAME, AfterBoot, survives, unknown_after
from railbed.check.shared.boot_card import FIRMWARE_PROBES, firmware_after_boot
from railbed.check.shared.buffers import (
    CONGESTION_PROBES,
    Congestion,
    congestion_of,
    dcqcn_obstacle,
    not_shown,
)
from railbed.check.shared.card import CARD_PROBES, card_of
from railbed.check.shared.port import first_of, no_ecn, no_rdma, rdma_name
from railbed.model.fix import Fix, Persistence, as_steps, write_value
from railbed.probes import infiniband_counters
from railbed.probes.boot_firmware import CardBootSettings
from railbed.probes.dcqcn import Ecn
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

CNP_COUNTERS = {"mlx5": ("np_cnp_sent", "rp_cnp_handled"), "irdma": ("cnpSent", "cnpHandled")}
"""By family of cards: notifications sent, and those that slowed the card down."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at both sides of the policy's priority."""
    expected = f"DCQCN on for priority {port.policy.priority}"
    if obstacle := dcqcn_obstacle(port, expected):
        yield obstacle
        return
    shown = congestion_of(port)
    if shown is None:
        yield _judge_counters(port, expected) or not_shown(port, expected, "enable")
    elif shown.ofed:
        yield _switches(port, shown.ofed, shown.folder, expected)
    else:
        yield _at_work(port, shown, expected)


def _switches(port: PortView, ecn: Ecn, folder: str, expected: str) -> Judgement:
    priority = str(port.policy.priority)
    sides = {"roce_np": ecn.notification.get(priority), "roce_rp": ecn.reaction.get(priority)}
    off = [side for side, on in sides.items() if on is False]
    missing = [side for side, on in sides.items() if on is None]
    if off:
        files = [f"{folder}/{side}/enable/{priority}" for side in off]
        return fail(expected=expected, observed=f"{' and '.join(off)} off", fix=_fix(port, files))
    if missing:
        return unknown(expected=expected, observed=f"no {' and '.join(missing)} switch for priority {priority}")
    right = ok(expected=expected, observed="roce_np and roce_rp on")
    fix = _fix(port, [f"{folder}/{side}/enable/{priority}" for side in sides])
    return survives(right, firmware_after_boot(port, RULE.name, fix, partial(_starts_on, port.policy.priority)), fix)


def _starts_on(priority: int, card: CardBootSettings) -> AfterBoot:
    if card.cc_priorities is None:
        return unknown_after("the firmware shows no ROCE_CC_PRIO_MASK_P1")
    if card.cc_priorities >> priority & 1:
        return SAME
    reason = f"off after a reboot: the firmware starts with ROCE_CC_PRIO_MASK_P1={card.cc_priorities}"
    return AfterBoot(state="other", reason=reason)


def _fix(port: PortView, files: Sequence[str]) -> Fix:
    return Fix(
        device=port.node.name,
        apply=as_steps(*(write_value(1, file) for file in files)),
        undo=as_steps(*(write_value(0, file) for file in files)),
        persistence=Persistence.BOOT,
    )


def _at_work(port: PortView, shown: Congestion, expected: str) -> Judgement:
    """Judge by the counted CNPs, since the driver has no setting to read."""
    evidence = "\n".join(f"{name} {value}" for name, value in shown.inbox.items())
    port.read(infiniband_counters.PROBE)
    return _judge_counters(port, expected, "mlx5", evidence) or unknown(
        expected=expected,
        observed="inbox driver: no setting to read, no CNPs counted yet",
        remedy=f"mlxconfig -d {port.port.rdma} query ROCE_CC_PRIO_MASK_P1, or check again after some congestion",
        evidence=evidence,
    )


def _judge_counters(port: PortView, expected: str, family: str | None = None, evidence: str = "") -> Judgement | None:
    """Return that DCQCN is on if the card has sent notifications and obeyed some."""
    facts = port.node.try_read(infiniband_counters.PROBE)
    counters = facts.ports.get(rdma_name(port)) if facts else None
    names = CNP_COUNTERS.get(family or card_of(port).family or "", ())
    counted = {name: counters.hw_counters.get(name, 0) for name in names} if counters else {}
    if not counted or not all(counted.values()):
        return None
    observed = ", ".join(f"{name} {count}" for name, count in counted.items())
    return ok(expected=expected, observed=observed, evidence=evidence)


RULE = Rule(
    name="dcqcn",
    title="congestion control (DCQCN) on",
    scope="port",
    needs=(*CONGESTION_PROBES, *CARD_PROBES, infiniband_counters.PROBE, *FIRMWARE_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_ecn),
    doc=__doc__,
    rank=190,
)
