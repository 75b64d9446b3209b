"""The card maps the policy's DSCP to the policy's priority.

What
----
`dcb app` (or the dscp2prio table of `mlnx_qos`) maps the policy's DSCP to the policy's priority, and to no other.
The next boot restores it: it is a warning if it is right now, but nothing sets it at boot.

Why
---
The DSCP of a packet, its receive buffer and the priority that pauses must match. If the host maps DSCP
26 elsewhere, received gradients miss the buffer that PFC protects: the card drops while it should pause, and the
all-reduce has to send the lost data again.

Fix
---
`dcb app replace dev IF dscp-prio 26:3`, or `mlnx_qos -i IF --dscp2prio set,26,3`. Keep it in a systemd unit: it is lost
at reboot.

Source
------
iproute2, dcb-app(8); NVIDIA MLNX_OFED documentation, mlnx_qos.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import unit_after_boot
from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.port import common_value, first_of, follow_rail, no_lossless, no_rdma
from railbed.check.shared.qos import dcb_has, dscp_priorities, set_dscp
from railbed.model.fix import Fix
from railbed.probes import dcb_app, mlnx_qos
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the priority of the policy's DSCP with the policy's."""
    dscp, priority = port.policy.dscp, port.policy.priority
    expected = f"DSCP {dscp} to priority {priority}"
    lacking = card_of(port).lacks(Ability.DSCP_TRUST)
    if lacking:
        yield skip(lacking, expected=expected)
        return
    priorities = dscp_priorities(port)
    if isinstance(priorities, str):
        yield unknown(expected=expected, observed=priorities)
        return
    mapped = sorted(set(priorities.get(dscp, ())))
    if mapped == [priority]:
        right = ok(expected=expected, observed=f"DSCP {dscp} to priority {priority}")
        yield right if _is_default(port) else _after_boot(port, right, mapped)
    elif mapped:
        named = " and ".join(str(number) for number in mapped)
        yield fail(expected=expected, observed=f"DSCP {dscp} to priority {named}", fix=_fix(port, mapped))
    else:
        yield fail(expected=expected, observed=f"DSCP {dscp} is not mapped", fix=_fix(port, mapped))


def _is_default(port: PortView) -> bool:
    """Whether cards that trust DSCP map it like that unless something else is set."""
    has_entries = dcb_has(port, port.node.try_read(dcb_app.PROBE))
    return not has_entries and port.policy.priority == port.policy.dscp >> 3


def _after_boot(port: PortView, right: Judgement, mapped: list[int]) -> Judgement:
    fix = set_dscp(port, mapped)
    return survives(right, unit_after_boot(port, RULE.name, fix, "qos"), fix)


def _fix(port: PortView, mapped: list[int]) -> Fix:
    """Map the DSCP; if the whole rail maps it to another priority, the policy may be wrong."""
    is_whole_rail = len(mapped) == 1 and mapped[0] != 0 and common_value(port, _priority) == mapped[0]
    return set_dscp(port, mapped, alternative=follow_rail("priority", mapped[0]) if is_whole_rail else "")


def _priority(port: PortView) -> int | None:
    """Return the only priority that a port maps the policy's DSCP to."""
    priorities = dscp_priorities(port)
    mapped = set() if isinstance(priorities, str) else {*priorities.get(port.policy.dscp, ())}
    return mapped.pop() if len(mapped) == 1 else None


RULE = Rule(
    name="dscp_map",
    title="DSCP mapped to the policy's priority",
    scope="port",
    needs=(dcb_app.PROBE, mlnx_qos.PROBE, *CARD_PROBES, *BOOT_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_lossless),
    doc=__doc__,
    rank=160,
)
