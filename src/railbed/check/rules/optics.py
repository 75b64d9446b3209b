"""The light that arrives at a node's port is within the limits of its module.

What
----
`ethtool -m` shows what each lane of the transceiver receives and sends. It is compared with the module's own limits for
alarm and warning; lanes that differ by more than 3 dB are a warning, too. Copper cables measure nothing.

Why
---
A dirty connector lets a link work until the room gets warmer: then FEC cannot correct any more, packets are lost, and
one rail stops all ranks in the middle of a run. If a link does not come up, light that arrives shows that fibre and
transmitter are fine, and that speed or FEC differ.

Fix
---
Clean both ends of the fibre, reseat the module, and look at the other end's power: what is sent there less what arrives
here is the loss of the path. No light: the fibre, the other port (it may be shut), or transmit and receive crossed.

Source
------
SFF-8472, SFF-8636 and CMIS (limits and flags in the module's memory); ethtool(8), `-m`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.hardware.optics import EXPECTED, judge_module
from railbed.check.shared.port import no_interface
from railbed.probes import ethtool_module, ip_link
from railbed.rules.judgement import Judgement, skip
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the module of the port."""
    netdev = port.port.netdev
    link = port.read(ip_link.PROBE).links.get(netdev)
    if link is None:
        yield no_interface(netdev)
        return
    module = port.read(ethtool_module.PROBE).interfaces.get(netdev)
    if module is None:
        yield skip("no module to read: a virtual card, or an empty cage", expected=EXPECTED)
    else:
        yield judge_module(module, up=link.has_carrier)


RULE = Rule(
    name="optics",
    title="light within the module's limits",
    scope="port",
    stage="cabling",
    needs=(ethtool_module.PROBE, ip_link.PROBE),
    judge=judge,
    doc=__doc__,
)
