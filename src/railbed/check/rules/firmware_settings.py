"""The firmware of a card is set up for this rail: link type, congestion control, its notifications, no DCBX of its own.

What
----
From the next boot on, as `mlxconfig` shows it: LINK_TYPE is Ethernet on a RoCE rail and InfiniBand on an InfiniBand
one; with ECN in the policy, ROCE_CC_PRIO_MASK has the bit of its priority, and CNP_DSCP and CNP_802P_PRIO are those of
the policy; LLDP_NB_DCBX is off. A setting that a card does not have is not judged.

Why
---
The driver starts with what the firmware says. With another link type the port is gone after a reboot; without the bit
of the priority the card ignores the marks of the switch; with another DSCP its notifications wait in the queue that
they are about; with DCBX in the firmware, the switch's settings replace those of the node.

Fix
---
`mlxconfig -d DEVICE -y set LINK_TYPE_P1=2`, `ROCE_CC_PRIO_MASK_P1=255`, `CNP_DSCP_P1=48`, `CNP_802P_PRIO_P1=6`,
`LLDP_NB_DCBX_P1=0`; then reboot. The firmware keeps them.

Source
------
NVIDIA MFT documentation, mlxconfig (configuration parameters); NVIDIA Network Operator documentation, NIC
configuration (roceOptimized); NVIDIA DOCA documentation, DCQCN parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.hardware.firmware import FIRMWARE_PROBES, firmware_of, tool_command
from railbed.check.shared.port import no_rdma, rdma_port
from railbed.probes.mlxconfig import CardFirmware
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "firmware set up for the rail"
LINK_TYPES = {"InfiniBand": 1, "Ethernet": 2}
REBOOT = "then reboot the node"
EVERY_PRIORITY = 255


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the settings that matter, each with its own remedy."""
    card = firmware_of(port, EXPECTED)
    if isinstance(card, Judgement):
        yield card
        return
    wrong = [*_link_type(port, card), *(_roce(port, card) if _layer(port) != "InfiniBand" else ())]
    yield from wrong
    if not wrong:
        yield ok(expected=EXPECTED, observed=", ".join(_list_settings(port, card)) or "no setting that matters")


def _layer(port: PortView) -> str | None:
    own = rdma_port(port)
    return own.link_layer if own else None


def _link_type(port: PortView, card: CardFirmware) -> Iterator[Judgement]:
    name, layer = f"LINK_TYPE_P{port.port.rdma_port}", _layer(port)
    wanted = LINK_TYPES.get(layer or "")
    value = card.after_boot(name)
    if wanted is not None and value in LINK_TYPES.values() and value != wanted:
        observed = f"{name} {card.settings[name].next}, on a link that is {layer} now"
        yield fail(observed, expected=EXPECTED, remedy=f"{tool_command(port, f'{name}={wanted}')}, {REBOOT}")


def _roce(port: PortView, card: CardFirmware) -> Iterator[Judgement]:
    number, policy = port.port.rdma_port, port.policy
    mask = f"ROCE_CC_PRIO_MASK_P{number}"
    value = card.after_boot(mask)
    if policy.ecn and value is not None and not value >> policy.priority & 1:
        remedy = f"{tool_command(port, f'{mask}={EVERY_PRIORITY}')}, {REBOOT}"
        yield fail(f"{mask} {value:#04x} lacks priority {policy.priority}", expected=EXPECTED, remedy=remedy)
    notifications = {f"CNP_DSCP_P{number}": policy.cnp_dscp, f"CNP_802P_PRIO_P{number}": policy.cnp_priority}
    for name, wanted in notifications.items() if policy.ecn else ():
        value = card.after_boot(name)
        if value is not None and value != wanted:
            remedy = f"{tool_command(port, f'{name}={wanted}')}, {REBOOT}; cnp_dscp shows what is in force now"
            yield warn(f"{name} {value}, the policy has {wanted}", expected=EXPECTED, remedy=remedy)
    agent = f"LLDP_NB_DCBX_P{number}"
    if (policy.pfc or policy.ecn) and card.after_boot(agent):
        remedy = f"{tool_command(port, f'{agent}=0')}, {REBOOT}"
        yield warn(f"{agent} is on: the switch may replace the node's QoS", expected=EXPECTED, remedy=remedy)


def _list_settings(port: PortView, card: CardFirmware) -> Iterator[str]:
    for prefix in ("LINK_TYPE", "ROCE_CC_PRIO_MASK", "CNP_DSCP"):
        setting = card.settings.get(f"{prefix}_P{port.port.rdma_port}")
        if setting:
            yield f"{prefix} {setting.next}"


RULE = Rule(
    name="firmware_settings",
    title="firmware set up for the rail",
    scope="RDMA port",
    stage="card",
    needs=FIRMWARE_PROBES,
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
