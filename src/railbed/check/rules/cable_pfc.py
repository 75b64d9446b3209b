"""Both ends of a cable pause the same priorities.

What
----
The priorities that the node's interface pauses (`dcb pfc`, `mlnx_qos`) are those that the switch port pauses in
operation (`show interface priority-flow-control`).

Why
---
PFC works only if both ends use it on the same priority: a switch that pauses priority 3 of a card that listens on 5
stops nothing, and packets are dropped while both ends look configured.

Fix
---
Set both ends as in the policy: see pfc for the node and switch_pfc for the switch. If both agree on a priority other
than the policy's, the cluster file is more likely to be wrong.

Source
------
IEEE 802.1Qbb.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.nexus_qos import no_port
from railbed.check.shared.port import no_pfc, no_rdma
from railbed.check.shared.qos import pfc_priorities
from railbed.parsing.nexus.answer import find_port
from railbed.probes import dcb_pfc, mlnx_qos
from railbed.probes.nexus import pfc
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import CableView

EXPECTED = "the same priorities at both ends"


def judge(cable: CableView) -> Iterator[Judgement]:
    """Compare the priorities of both ends."""
    other = find_port(cable.switch_port.read(pfc.PROBE).ports, cable.switch_port.port.name)
    lacking = card_of(cable.port).lacks(Ability.PFC)
    if lacking:
        yield skip(lacking)
    elif other is None:
        yield no_port(cable.switch_port)
    else:
        yield _compare(cable, pfc_priorities(cable.port), other.priorities if other.operational else ())


def _compare(cable: CableView, here: tuple[int, ...] | str, there: tuple[int, ...]) -> Judgement:
    if isinstance(here, str):
        return unknown(expected=EXPECTED, observed=here)
    if not here and not there:
        return skip("neither end pauses: see pfc and switch_pfc", expected=EXPECTED)
    observed = f"{_list_priorities(here)} here, {_list_priorities(there)} at {cable.switch_port.subject}"
    return (ok if here == there else fail)(expected=EXPECTED, observed=observed)


def _list_priorities(priorities: tuple[int, ...]) -> str:
    return f"priority {', '.join(map(str, priorities))}" if priorities else "none"


def _unless(cable: CableView) -> str:
    return no_rdma(cable.port) or no_pfc(cable)


RULE = Rule(
    name="cable_pfc",
    title="same PFC priorities at both ends of a cable",
    scope="cable",
    stage="switch",
    needs=(dcb_pfc.PROBE, mlnx_qos.PROBE, pfc.PROBE, *CARD_PROBES),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
