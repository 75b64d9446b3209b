"""A pause storm: a port is stopped for so long that the fabric may lock up.

What
----
A card reports a pause storm, the switch's PFC watchdog shut a queue, or a card had its switch port stopped for more
than half of the time over several seconds.

Why
---
Pauses spread: the switch stops its senders, they stop theirs. One broken card can stop every node, and a circle of
pauses never ends by itself. What the watchdog drops ends the connections of the job.

Fix
---
Take the node out, and look at its card: firmware, PCIe errors in `dmesg`, a hung kernel. `railbed check switch_watchdog
switch_pfc` shows whether the watchdog is on.

Source
------
Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM 2016; Linux kernel documentation, mlx5 counters
(`tx_pause_storm_warning_events`); Cisco NX-OS, PFC watchdog.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import describe_growth, grew, growths, measured_signals
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.signal import Signal
from railbed.rules.site import PortView

STORM_SHARE = 0.5
"""Of the time: a slow receiver still takes in something, a broken card next to nothing."""
STORM_SECONDS = 5.0
"""Longer than bursts of traffic; watchdogs act much sooner, if there are any."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Read the card's own warnings, the switch's watchdog, and the share of time."""
    watchdog = port.switch_port.try_signal("watchdog_shutdowns", port.lossless) if port.switch_port else None
    share = port.try_signal("pause_tx_us", port.lossless)
    warnings = [port.try_signal("pause_storm_warnings"), port.try_signal("pause_storm_errors"), watchdog]
    signals = measured_signals(port, ("pause_storm_warnings", "watchdog_shutdowns", "pause_tx_us"), *warnings, share)
    reported = False
    for span, grown in growths([signal for signal in signals if signal is not share]):
        reported = True
        victims = _paused_peers(port, grown[0])
        others = f"; {victims} other ports were paused, too" if victims else ""
        yield fail(
            f"{describe_growth(grown, span)}{others}", *grown, span=span, certainty="certain", expected="no pause storm"
        )
    if share is not None and not reported:
        for span in share.above(STORM_SHARE * 1e6, least=STORM_SECONDS):
            observed = f"the card had the switch stopped {share.mean(span) / 1e4:.0f} % of the time"
            yield fail(observed, share, span=span, expected="no pause storm")


def _paused_peers(port: PortView, storm: Signal) -> int:
    spans = storm.above(0.0)
    return sum(grew(peer.try_signal("pause_rx_frames", port.lossless), spans[0]) > 0 for peer in port.peers)


RULE = Rule(
    name="pause_storm",
    title="a pause storm",
    scope="port",
    needs=("pause_storm_warnings", "watchdog_shutdowns"),
    judge=judge,
    doc=__doc__,
)
