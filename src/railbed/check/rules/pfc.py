"""Priority flow control is on for the policy's priority, and for no other.

What
----
`dcb pfc` (or `mlnx_qos`) shows PFC on exactly the no-drop priority of the policy, on every RDMA interface of a rail.
The next boot restores it: it is a warning if it is right now, but nothing sets it at boot.

Why
---
PFC lets a full switch stop the sender instead of dropping. A host that ignores the pause overruns the switch: every
all-reduce then loses packets, RoCE goes back to the first lost one, and steps take many times as long. PFC on a second
priority stops traffic that may be dropped, and storage or SSH can hold up training.

Fix
---
`dcb pfc set dev IF prio-pfc all:off 3:on`, or `mlnx_qos -i IF --pfc 0,0,0,1,0,0,0,0`. Both are lost at reboot: put the
command into a systemd unit that runs after the network.

Source
------
IEEE 802.1Qbb; iproute2, dcb-pfc(8); Linux kernel documentation, mlx5 counters (rx_prioN_pause exists only with PFC on).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import unit_after_boot
from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.port import common_value, first_of, follow_rail, no_pfc, no_rdma
from railbed.check.shared.qos import pfc_priorities, set_pfc
from railbed.model.fix import Fix
from railbed.probes import dcb_pfc, mlnx_qos
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the priorities with PFC on with the policy's priority."""
    expected = f"PFC on priority {port.policy.priority} only"
    lacking = card_of(port).lacks(Ability.PFC)
    if lacking:
        yield skip(lacking, expected=expected)
        return
    enabled = pfc_priorities(port)
    if isinstance(enabled, str):
        yield unknown(expected=expected, observed=enabled, remedy="in a VM, PFC is set on the host that owns the card")
    elif enabled == (port.policy.priority,):
        right, fix = ok(expected=expected, observed=f"PFC on priority {enabled[0]}"), set_pfc(port, enabled, enabled)
        yield survives(right, unit_after_boot(port, RULE.name, fix, "qos"), fix)
    else:
        named = " and ".join(str(priority) for priority in enabled)
        yield fail(
            expected=expected,
            observed=f"PFC on {named}" if enabled else "PFC off",
            fix=_fix(port, enabled),
        )


def _fix(port: PortView, enabled: tuple[int, ...]) -> Fix:
    """Set the policy's priority; a person decides about others that the whole rail uses."""
    wanted = port.policy.priority
    if wanted in enabled:
        return set_pfc(port, enabled, (wanted,), condition="if no other lossless traffic needs the others")
    is_whole_rail = len(enabled) == 1 and common_value(port, _known_priorities) == enabled
    return set_pfc(port, enabled, (wanted,), alternative=follow_rail("priority", enabled[0]) if is_whole_rail else "")


def _known_priorities(port: PortView) -> tuple[int, ...] | None:
    enabled = pfc_priorities(port)
    return None if isinstance(enabled, str) else enabled


RULE = Rule(
    name="pfc",
    title="PFC on the policy's priority",
    scope="port",
    needs=(dcb_pfc.PROBE, mlnx_qos.PROBE, *CARD_PROBES, *BOOT_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_pfc),
    doc=__doc__,
    rank=140,
)
