"""The lossless priority has a share of the bandwidth to itself, and congestion notifications overtake everything.

What
----
`dcb ets` (or `mlnx_qos`) shows: the policy's priority is sent from a traffic class of its own that shares the bandwidth
(`ets`, more than 0 %); the class of CNPs is `strict`, if the policy uses ECN; and unmarked traffic, priority 0, is
sent from a class that shares, too. The next boot restores it: it is a warning if nothing sets it at boot.

Why
---
If the lossless priority shares its class with others, a pause from the switch stops those as well, and their packets
delay the gradients. A strict class of unmarked traffic starves the gradients whenever a checkpoint is copied over the
same port. A CNP that waits behind gradients makes the sender slow down too late: queues fill until PFC stops the port.

Fix
---
`dcb ets set dev IF prio-tc … tc-tsa … tc-bw …`, or `mlnx_qos -i IF --prio_tc … --tsa … --tcbw …`. Half of the bandwidth
for the lossless class and the rest for the others is a good start: what a class does not use, others get. Both are
lost at reboot. A card with fewer classes than priorities needs several of the other priorities in one class.

Source
------
IEEE 802.1Qaz; iproute2, dcb-ets(8); Linux kernel, mlx5 en_dcbnl.c (shares have to add up to 100); NVIDIA MLNX_OFED
documentation, mlnx_qos.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import unit_after_boot
from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.port import first_of, no_lossless, no_rdma
from railbed.check.shared.qos import Classes, lossless_classes, set_classes, traffic_classes
from railbed.probes import dcb_ets, mlnx_qos
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the classes of the lossless priority, of CNPs and of unmarked traffic with what each needs."""
    lossless, cnp = port.policy.priority, _cnp_priority(port)
    expected = f"a share for priority {lossless} alone" + (f", priority {cnp} strict" if cnp is not None else "")
    card = card_of(port)
    if lacking := card.lacks(Ability.ETS):
        yield skip(lacking, expected=expected)
        return
    classes = traffic_classes(port)
    if isinstance(classes, str):
        yield _not_shown(classes, expected, is_connectx=card.family in ("mlx4", "mlx5", None))
    elif problems := list(_problems(classes, lossless, cnp)):
        wanted = lossless_classes(classes, lossless, cnp)
        fix = set_classes(port, classes, wanted) if wanted else None
        yield warn(expected=expected, observed="; ".join(problems), fix=fix)
    else:
        observed = f"{classes.shares[classes.prio_tc[lossless]]} % for priority {lossless}"
        right, fix = ok(expected=expected, observed=observed), set_classes(port, classes, classes)
        yield survives(right, unit_after_boot(port, RULE.name, fix, "qos"), fix)


def _cnp_priority(port: PortView) -> int | None:
    """Return the priority of CNPs, if the policy has a separate one."""
    separate = port.policy.ecn and port.policy.cnp_priority != port.policy.priority
    return port.policy.cnp_priority if separate else None


def _problems(classes: Classes, lossless: int, cnp: int | None) -> Iterator[str]:
    own = classes.prio_tc[lossless]
    if others := [str(priority) for priority in classes.list_priorities(own) if priority != lossless]:
        yield f"priority {lossless} shares class {own} with {', '.join(others)}"
    if classes.algorithms[own] != "ets":
        yield f"class {own} of priority {lossless} is {classes.algorithms[own]}"
    elif not classes.shares[own]:
        yield f"class {own} of priority {lossless} has a share of 0 %"
    if cnp is not None and classes.algorithms[classes.prio_tc[cnp]] != "strict":
        yield f"class {classes.prio_tc[cnp]} of priority {cnp} (CNPs) is {classes.algorithms[classes.prio_tc[cnp]]}"
    unmarked = classes.prio_tc[0]
    if unmarked != own and classes.algorithms[unmarked] != "ets":
        yield f"class {unmarked} of unmarked traffic is {classes.algorithms[unmarked]}"


def _not_shown(reason: str, expected: str, *, is_connectx: bool) -> Judgement:
    if is_connectx or not reason.startswith("dcb:"):
        remedy = "in a VM, traffic classes are set on the host that owns the card"
        return unknown(expected=expected, observed=reason, remedy=remedy)
    return skip(f"the driver has no traffic classes ({reason})", expected=expected)


RULE = Rule(
    name="ets",
    title="traffic classes: a share for RDMA, CNPs first",
    scope="port",
    needs=(dcb_ets.PROBE, mlnx_qos.PROBE, *CARD_PROBES, *BOOT_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_lossless),
    doc=__doc__,
    rank=120,
)
