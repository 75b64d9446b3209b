"""Congestion control of Broadcom's and Intel's cards is on, and uses the policy's marks.

What
----
bnxt_re: `ecn_enable` and `ecn_marking` are on (`enable_cc` and `tos_ecn` in debugfs), and the DSCP and priority of RDMA
and of notifications are those of the policy. irdma: one of DCQCN, DCTCP and TIMELY is on, in configfs or as a parameter
of the module. Cards of other vendors are skipped; dcqcn judges those of NVIDIA.

Why
---
With ECN the switch marks packets before its queue is full, and the cards have to slow down for it to help. Off, or with
another DSCP than the switch expects, many nodes that send to one fill the queue on every all-reduce, and PFC stops the
ports before it.

Fix
---
bnxt_re: write 1 to `ecn_enable` and `ecn_marking` below /sys/kernel/config/bnxt_re/DEVICE/ports/1/cc (create the folder
of the device first), the values of the policy to `roce_dscp`, `roce_prio`, `cnp_dscp` and `cnp_prio`, and 1 to `apply`.
irdma: `echo 1 > /sys/kernel/config/irdma/DEVICE/roce_dcqcn_enable`. Both are lost at a reboot.

Source
------
Broadcom, bnxt_re driver README (congestion control) and bnxt_setupcc.sh; Linux kernel, drivers/infiniband/hw/bnxt_re
(debugfs.c); Intel Ethernet 800 Series Linux Flow Control Configuration Guide for RDMA Use Cases.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from railbed.check.shared.card import CARD_PROBES, card_of
from railbed.check.shared.port import first_of, no_ecn, no_rdma, rdma_device, some
from railbed.model.fix import Fix, Persistence, as_steps, write_value
from railbed.probes import infiniband, vendor_congestion
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "congestion control on, with the policy's marks"
BNXT, IRDMA = "bnxt_re", "irdma"
SWITCHES = (("ecn_enable", "enable_cc"), ("ecn_marking", "tos_ecn"))
"""Names in configfs and debugfs."""
ALGORITHMS = ("roce_dcqcn_enable", "roce_dctcp_enable", "roce_timely_enable", "dcqcn_enable")


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the settings of the port's driver."""
    family = card_of(port).family
    if family is None:
        port.read(infiniband.PROBE)
    if family not in (BNXT, IRDMA):
        yield skip("not a card of Broadcom or Intel", expected=EXPECTED)
        return
    facts = port.read(vendor_congestion.PROBE)
    name = port.port.rdma or ""
    if family == IRDMA:
        yield _judge_irdma(facts.irdma.get(name, {}), facts.irdma.get("", {}))
        return
    device = rdma_device(port)
    shown = facts.bnxt.get(name) or facts.bnxt.get((device.pci if device else None) or "") or {}
    yield _judge_bnxt(port, shown, is_configfs=name in facts.bnxt)


def _judge_bnxt(port: PortView, shown: Mapping[str, int], *, is_configfs: bool) -> Judgement:
    switches = {names[0]: next((shown[name] for name in names if name in shown), None) for names in SWITCHES}
    if switches["ecn_enable"] is None:
        return unknown(
            expected=EXPECTED,
            observed="bnxt_re shows no congestion settings",
            remedy=f"mkdir /sys/kernel/config/bnxt_re/{port.port.rdma}, or `niccli`; the driver may need configfs",
        )
    off = [name for name, value in switches.items() if value == 0]
    if off:
        fix = _fix(port, off) if is_configfs else None
        return fail(f"{' and '.join(off)} off", expected=EXPECTED, fix=fix, evidence=_list(shown))
    policy = port.policy
    wanted = {
        ("roce_dscp", "tos_dscp"): policy.dscp,
        ("roce_prio",): policy.priority,
        ("cnp_dscp", "alt_vlan_dscp"): policy.cnp_dscp,
        ("cnp_prio", "alt_vlan_pcp"): policy.cnp_priority,
    }
    others = [
        f"{name} {shown[name]} instead of {value}"
        for names, value in wanted.items()
        for name in names
        if name in shown and shown[name] != value
    ]
    if others:
        return warn(some(others), expected=EXPECTED, evidence=_list(shown))
    return ok(expected=EXPECTED, observed=f"on, DSCP {policy.dscp} and {policy.cnp_dscp}", evidence=_list(shown))


def _judge_irdma(own: Mapping[str, int], module: Mapping[str, int]) -> Judgement:
    shown = {name: settings[name] for settings in (module, own) for name in ALGORITHMS if name in settings}
    on = [name for name, value in shown.items() if value]
    if on:
        return ok(expected=EXPECTED, observed=", ".join(on), evidence=_list({**module, **own}))
    if not shown:
        return unknown(
            expected=EXPECTED,
            observed="irdma shows no congestion settings",
            remedy="Intel's own driver has them in /sys/kernel/config/irdma, once the device's folder is created there",
        )
    return fail(f"{', '.join(shown)} off", expected=EXPECTED, evidence=_list({**module, **own}))


def _fix(port: PortView, switches: Sequence[str]) -> Fix:
    device = f"/sys/kernel/config/bnxt_re/{port.port.rdma}"
    folder = f"{device}/ports/{port.port.rdma_port}/cc"
    apply = write_value(1, f"{folder}/apply")
    return Fix(
        device=port.node.name,
        # At boot the folder is not there yet.
        apply=as_steps(
            f"mkdir -p {shlex.quote(device)}", *(write_value("0x1", f"{folder}/{name}") for name in switches), apply
        ),
        undo=as_steps(*(write_value("0x0", f"{folder}/{name}") for name in switches), apply),
        persistence=Persistence.BOOT,
    )


def _list(settings: Mapping[str, int]) -> str:
    return "\n".join(f"{name} {value}" for name, value in settings.items())


RULE = Rule(
    name="congestion_settings",
    title="congestion control of Broadcom's and Intel's cards",
    scope="RDMA port",
    stage="card",
    needs=(vendor_congestion.PROBE, *CARD_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_ecn),
    doc=__doc__,
    rank=190,
)
