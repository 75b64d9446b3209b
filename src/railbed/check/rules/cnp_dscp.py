"""Congestion notifications are sent with the policy's DSCP.

What
----
`cnp_dscp` (OFED) or `np_cnp_dscp` (inbox debugfs) of the card is the policy's DSCP for congestion notification packets.
It is a warning if the firmware starts with another one and nothing sets it at boot, as far as `mlxconfig` shows that.

Why
---
The receiver of a marked packet sends a CNP, which makes the sender slow down. With another DSCP it waits in the very
queue that is full, or behind bulk traffic: the sender slows down too late, queues grow until PFC stops whole ports, and
the all-reduce of every job behind them stalls.

Fix
---
OFED: `echo 48 > /sys/class/net/IF/ecn/roce_np/cnp_dscp`. Inbox: `echo 48 > …/cc_params/np_cnp_dscp`. Permanently, in
firmware: `mlxconfig -d DEVICE set CNP_DSCP_P1=48`. The value is not fixed at 48, although some guides say so.
Broadcom's own driver: `cnp_dscp` in configfs (`bnxt_re/DEVICE/ports/1/cc`), then `apply`.

Source
------
Linux kernel, drivers/infiniband/hw/mlx5/cong.c; NVIDIA MLNX_OFED documentation, explicit congestion notification;
Broadcom, bnxt_setupcc.sh.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from railbed.check.shared.card import CARD_PROBES
from railbed.check.shared.port import common_value, first_of, follow_rail, no_ecn, no_rdma, set_value
from railbed.model.fix import Fix
from railbed.probes.boot_firmware import CardBootSettings
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the card's DSCP of notifications with the policy's."""
    wanted = port.policy.cnp_dscp
    expected = f"CNPs with DSCP {wanted}"
    if obstacle := dcqcn_obstacle(port, expected):
        yield obstacle
        return
    shown = congestion_of(port)
    if shown is None or shown.cnp_dscp is None:
        yield not_shown(port, expected, "cnp_dscp")
    elif shown.cnp_dscp != wanted:
        yield fail(
            expected=expected, observed=f"CNPs with DSCP {shown.cnp_dscp}", fix=_fix(port, shown.cnp_dscp, _file(shown))
        )
    else:
        right = ok(expected=expected, observed=f"CNPs with DSCP {shown.cnp_dscp}")
        fix = set_value(port, _file(shown), before=wanted, after=wanted)
        yield survives(right, firmware_after_boot(port, RULE.name, fix, partial(_starts_with, wanted)), fix)


def _starts_with(wanted: int, card: CardBootSettings) -> AfterBoot:
    if card.cnp_dscp is None:
        return unknown_after("the firmware shows no CNP_DSCP_P1")
    if card.cnp_dscp == wanted:
        return SAME
    return AfterBoot(state="other", reason=f"after a reboot {card.cnp_dscp}: the firmware starts with CNP_DSCP_P1")


def _fix(port: PortView, dscp: int, file: str) -> Fix:
    """Set the DSCP; if the whole rail has another one, the policy may be wrong."""
    is_whole_rail = dscp != 0 and common_value(port, _cnp_dscp) == dscp
    alternative = follow_rail("cnp_dscp", dscp) if is_whole_rail else ""
    return set_value(port, file, before=dscp, after=port.policy.cnp_dscp, alternative=alternative)


def _cnp_dscp(port: PortView) -> int | None:
    shown = congestion_of(port)
    return shown.cnp_dscp if shown else None


def _file(shown: Congestion) -> str:
    return f"{shown.folder}/roce_np/cnp_dscp" if shown.ofed else f"{shown.folder}/np_cnp_dscp"


RULE = Rule(
    name="cnp_dscp",
    title="CNPs with the policy's DSCP",
    scope="port",
    needs=(*CONGESTION_PROBES, *CARD_PROBES, *FIRMWARE_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_ecn),
    doc=__doc__,
    rank=200,
)
