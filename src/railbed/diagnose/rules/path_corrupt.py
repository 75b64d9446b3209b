"""A device on the path changes RoCE packets.

What
----
A card receives RoCE packets with a wrong ICRC, while neither it nor its switch port counts frames with a wrong
Ethernet checksum.

Why
---
Damage on a cable fails the checksum of the Ethernet frame, which each hop computes anew, and the frame is dropped
before anybody looks at the ICRC. The ICRC covers a packet from end to end: if only it is wrong, the packet was changed
inside a device, where no checksum covers it. RoCE then repeats everything since that packet.

Fix
---
`railbed capture --full` at both ends shows whether packets leave the sender damaged. Update the firmware of the card or
switch where they change, test its memory, or replace it. Leave the cable alone.

Source
------
InfiniBand architecture, annex A17 (ICRC); IEEE 802.3, clause 3.2.9 (FCS); Linux kernel, mlx5 (`rx_icrc_encapsulated`).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import describe_growth, grew, growths
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

LEAST_PACKETS = 3
"""One in an hour may be a cosmic ray."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare packets that were changed with frames that a cable damaged."""
    changed = port.signal("rdma_damaged_packets")
    switch = port.switch_port
    damaged = [port.try_signal("phy_crc_errors"), switch.try_signal("switch_crc_errors") if switch else None]
    for span, grown in growths([changed], least=LEAST_PACKETS):
        is_cable = any(grew(signal, span) for signal in damaged)
        yield fail(
            f"{describe_growth(grown, span)}: changed on the way to the node",
            *grown,
            span=span,
            certainty="possible" if is_cable or all(signal is None for signal in damaged) else "certain",
            expected="packets arrive as they were sent",
        )


RULE = Rule(
    name="path_corrupt",
    title="a device changes packets",
    scope="port",
    needs=("rdma_damaged_packets",),
    judge=judge,
    doc=__doc__,
)
