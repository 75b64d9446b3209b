"""Nobody pauses, and packets are lost: PFC is off at both ends.

What
----
RDMA packets were lost on a rail, and neither its cards nor its switch counted a single pause on the lossless priority
during the run.

Why
---
A fabric that drops before it pauses is not lossless. A switch port that negotiates PFC (`Auto`) with a card that does
not answer stays `Oper Off`: both ends look configured. Under load, bandwidth collapses and NCCL ends with "status 12".

Fix
---
Compare both ends of the cables: `railbed check cable_pfc pfc switch_pfc`; `railbed configure` shows the change. On the
switch, set the mode to `on` unless the cards speak DCBX.

Source
------
Cisco NX-OS, show interface priority-flow-control (Mode Auto, Oper Off, RxPPP and TxPPP 0).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import describe_growth, growths
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.signal import Signal, sum_growth
from railbed.rules.site import RailView

LEAST_PACKETS = 10
"""A few may be lost when links come up."""


def judge(rail: RailView) -> Iterator[Judgement]:
    """Find losses on a rail without any pause."""
    at_cards, at_switch, losses = _pauses_at_cards(rail), _pauses_at_switch(rail), _losses(rail)
    if not at_cards:
        raise Unsampled("pause_rx_frames", rail.name)
    if not losses:
        raise Unsampled("rdma_out_of_sequence", rail.name)
    if sum_growth([*at_cards, *at_switch]) > 0:
        return
    for span, grown in growths(losses, least=LEAST_PACKETS):
        nobody = "neither a card nor the switch" if at_switch else "no card"
        yield fail(
            f"{describe_growth(grown, span)}, and {nobody} counted a single pause during the run",
            *grown[:2],
            span=span,
            certainty="likely" if at_switch else "possible",
            expected="pauses before packets are lost",
        )


def _pauses_at_cards(rail: RailView) -> list[Signal]:
    directions = ("pause_rx_frames", "pause_tx_frames")
    signals = [port.try_signal(meter, port.lossless) for port in rail.ports for meter in directions]
    return [signal for signal in signals if signal]


def _pauses_at_switch(rail: RailView) -> list[Signal]:
    directions = ("switch_pause_rx_frames", "switch_pause_tx_frames")
    signals = [end.try_signal(meter) for end in rail.switch_ports for meter in directions]
    return [signal for signal in signals if signal]


def _losses(rail: RailView) -> list[Signal]:
    drops = [end.try_signal("queue_drop_packets", end.lossless) for end in rail.switch_ports]
    return [*rail.try_signals("rdma_out_of_sequence").values(), *(signal for signal in drops if signal)]


RULE = Rule(
    name="pause_off",
    title="packets are lost and nobody pauses",
    scope="rail",
    needs=("pause_rx_frames", "rdma_out_of_sequence"),
    judge=judge,
    doc=__doc__,
    yields_anywhere=(
        "link_cable",
        "link_flap",
        "node_cut",
        "node_frozen",
        "mark_missing",
        "mark_trust",
        "congestion_wred",
        "path_corrupt",
        "path_mtu",
        "path_peer_dead",
    ),
)
