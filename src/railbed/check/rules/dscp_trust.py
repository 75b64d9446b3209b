"""The card sorts packets by DSCP.

What
----
`mlnx_qos` shows trust state `dscp`. With the inbox driver, an entry `dscp-prio` in `dcb app` implies it: mlx5 changes
to DSCP trust with the first entry, and back with the last.
The next boot restores it: it is a warning if it is right now, but nothing sets it at boot.

Why
---
RoCE v2 on a routed network carries its priority in the DSCP of the IP header. A card that trusts PCP looks for a VLAN
tag instead, finds none, and puts everything into priority 0: the right ToS is on the wire, but neither PFC nor the
lossless buffer works for it, and training loses packets under load.

Fix
---
`mlnx_qos -i IF --trust dscp`, or with the inbox driver `dcb app replace dev IF dscp-prio 26:3`. Keep it in a systemd
unit: it is lost at reboot.

Source
------
Linux kernel, mlx5 en_dcbnl.c (trust state follows the DSCP entries); NVIDIA MLNX_OFED documentation, mlnx_qos.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import unit_after_boot
from railbed.check.shared.card import CARD_PROBES, Ability, Card, card_of
from railbed.check.shared.port import first_of, no_lossless, no_rdma
from railbed.check.shared.qos import dscp_priorities, ofed_qos, trust_dscp
from railbed.probes import dcb_app, mlnx_qos
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the trust state, or at settings that imply it."""
    expected = "trust dscp"
    card = card_of(port)
    lacking = card.lacks(Ability.DSCP_TRUST)
    if lacking:
        yield skip(lacking, expected=expected)
        return
    qos = ofed_qos(port)
    if qos and qos.trust == "dscp":
        right, fix = ok(expected=expected, observed="trust dscp"), trust_dscp(port, "dscp")
        yield survives(right, unit_after_boot(port, RULE.name, fix, "qos"), fix)
    elif qos and qos.trust:
        yield fail(expected=expected, observed=f"trust {qos.trust}", fix=trust_dscp(port, qos.trust))
    else:
        yield _infer_trust(port, card, expected)


def _infer_trust(port: PortView, card: Card, expected: str) -> Judgement:
    entries = dscp_priorities(port)
    if isinstance(entries, str):
        return unknown(expected=expected, observed=entries)
    if entries:
        return ok(expected=expected, observed=f"dscp, implied by {len(entries)} dcb app entries")
    if card.family == "mlx5":
        return fail(expected=expected, observed="pcp: dcb app has no dscp-prio entry", fix=trust_dscp(port, None))
    return unknown(expected=expected, observed="this driver does not show its trust state")


RULE = Rule(
    name="dscp_trust",
    title="the card trusts DSCP",
    scope="port",
    needs=(mlnx_qos.PROBE, dcb_app.PROBE, *CARD_PROBES, *BOOT_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_lossless),
    doc=__doc__,
    rank=150,
)
