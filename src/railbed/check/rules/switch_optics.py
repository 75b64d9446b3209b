"""The light that arrives at a switch port is within the limits of its module.

What
----
`show interface transceiver details` shows what each lane of a transceiver receives and sends, with the module's own
limits; the switch marks what is beyond them. Lanes that differ by more than 3 dB are a warning, too.

Why
---
What a node sends arrives here: a weak laser or a dirty connector at this end of the cable does not show on the node,
which receives well, but whose packets are lost, so that RDMA sends them again.

Fix
---
Clean both ends of the fibre, reseat the module, and look at what the node's module sends (see optics). No light: the
fibre, the node's port, or transmit and receive crossed.

Source
------
Cisco Nexus 9000 Series NX-OS Interfaces Configuration Guide, show interface transceiver details; SFF-8472, SFF-8636.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.hardware.optics import EXPECTED, judge_module
from railbed.check.shared.nexus_qos import interface_of, no_port
from railbed.parsing.nexus.answer import find_port
from railbed.probes.nexus import interface, optics
from railbed.rules.judgement import Judgement, skip
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Look at the module of the port."""
    link = interface_of(port)
    if link is None:
        yield no_port(port)
        return
    module = find_port(port.read(optics.PROBE).ports, port.port.name)
    if module is None:
        yield skip("no transceiver in this port", expected=EXPECTED)
    elif not link.enabled:
        yield skip("the port is shut down: see switch_link", expected=EXPECTED)
    else:
        yield judge_module(module, up=link.up)


RULE = Rule(
    name="switch_optics",
    title="light within the module's limits at the switch",
    scope="switch port",
    stage="cabling",
    needs=(optics.PROBE, interface.PROBE),
    judge=judge,
    doc=__doc__,
)
