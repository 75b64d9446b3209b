"""A cable or transceiver damages frames.

What
----
A card or its switch port counts frames with a wrong checksum, or symbols that could not be decoded. A wrong ICRC in
frames whose own checksum is right does not come from a cable: see path_corrupt.

Why
---
Each damaged frame is dropped. RoCE then repeats everything since that packet, so a cable that damages one frame in a
million costs much more than a millionth of the bandwidth, and it gets worse.

Fix
---
Clean, reseat or replace the cable or transceiver between the two ports named here. `railbed check net_errors
switch_counters` shows whether errors go on; `ethtool --show-fec IF` must be equal at both ends, and
`ethtool -m IF` shows the optical power.

Source
------
Linux kernel documentation, mlx5 counters (`rx_crc_errors_phy`, `rx_symbol_err_phy`); Cisco NX-OS, show interface
counters errors (FCS-Err).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import describe_growth, growths, measured_signals
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

LEAST_ERRORS = 3
"""One frame in an hour may be a cosmic ray."""
METERS = ("phy_crc_errors", "phy_symbol_errors")


def judge(port: PortView) -> Iterator[Judgement]:
    """Read the errors at both ends of a port's cable."""
    switch = port.switch_port
    at_switch = switch.try_signal("switch_crc_errors") if switch else None
    signals = measured_signals(
        port, (*METERS, "switch_crc_errors"), *(port.try_signal(meter) for meter in METERS), at_switch
    )
    for span, grown in growths(signals, least=LEAST_ERRORS):
        far = f" (the cable to {switch.subject})" if switch else ""
        direction = "on the way to the switch" if grown == [at_switch] else "on the way to the node"
        yield fail(
            f"{describe_growth(grown, span)} {direction}{far}",
            *grown,
            span=span,
            certainty="certain",
            expected="no damaged frames",
        )


RULE = Rule(
    name="link_cable",
    title="a cable damages frames",
    scope="port",
    needs=("phy_crc_errors", "switch_crc_errors"),
    judge=judge,
    doc=__doc__,
)
