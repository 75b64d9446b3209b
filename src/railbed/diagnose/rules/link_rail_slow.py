"""One rail is slow for all nodes.

What
----
The network took at least twice as long as usual in this run for all nodes, while they computed about as fast as usual
and no single node stands out. The rank that waits the least in a step waits only for the network. Or, with several
rails in use, one carried less than two thirds of the others.

Why
---
Collectives use all rails evenly and wait for the slowest. What slows a rail for every node is in the middle: its
switch, an uplink, a policy, or other traffic.

Fix
---
Measure the rail on its own: `railbed bench --experiment rails`, and `railbed check switch_link switch_counters
rail_speed_equal`. Look for other traffic on the switch at that time.

Source
------
railbed's own measures of the exposed all-reduce (docs/training-metrics.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.diagnose.shared.compare import at, middles
from railbed.diagnose.shared.network import busiest_rail, sent_by, slow_network, used_rails
from railbed.model.text import duration, size
from railbed.rules.judgement import Judgement, Span, fail, warn
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.signal import Signal, median_of
from railbed.rules.site import RailView, Site

LEAST_SECONDS = 5.0
FAIR_SHARE = 2 / 3
"""Of what the other rails carry: collectives divide their data evenly."""


def judge(site: Site) -> Iterator[Judgement]:
    """Compare waits with the run's usual ones, and rails with each other."""
    rails = used_rails(site)
    if len(rails) > 1:
        yield from _compare_rails(rails)
    try:
        yield from _compare_times(site)
    except Unsampled:
        if len(rails) < 2:
            raise


def _compare_times(site: Site) -> Iterator[Judgement]:
    for slow in slow_network(site):
        rail = busiest_rail(site, slow.span) or busiest_rail(site)
        yield fail(
            f"the network took {duration(slow.seconds)} per step on all nodes, usually {duration(slow.usual)}"
            f"{_rate(rail, slow.span)}",
            *_one_of_each(site, rail),
            span=slow.span,
            subject=rail.name if rail else "",
            expected="as fast as in the rest of the run",
        )


def _rate(rail: RailView | None, span: Span) -> str:
    if rail is None:
        return ""
    return f"; it carried {size(sent_by(rail, span))}/s per node, {size(sent_by(rail))}/s in the mean of the run"


def _one_of_each(site: Site, rail: RailView | None) -> list[Signal]:
    sent = list(rail.try_signals("net_tx_bytes").values()) if rail else []
    return [*site.run.signals_of("allreduce_exposed_seconds")[:1], *sent[:1]]


def _compare_rails(rails: list[RailView]) -> Iterator[Judgement]:
    """Compare what each rail carried with the others at the same time."""
    sums = {rail.name: _sum_of(rail) for rail in rails}
    for name, signal in sums.items():
        others = middles(np.array([at(signal.times, other) for key, other in sums.items() if key != name]))
        busy = others > 0.5 * median_of(others)
        for span in signal.where(busy & (signal.values < FAIR_SHARE * others), least=LEAST_SECONDS):
            rest = float(np.nanmean(others[signal.during(span)]))
            yield warn(
                f"carried {size(signal.mean(span))}/s, the other rails {size(rest)}/s",
                signal,
                span=span,
                subject=name,
                expected="rails carry the same",
            )


def _sum_of(rail: RailView) -> Signal:
    """Return what all nodes of a rail sent together."""
    signals = [*rail.try_signals("rdma_tx_bytes").values(), *rail.try_signals("net_tx_bytes").values()]
    first = signals[0]
    values = np.array([at(first.times, signal) for signal in signals])
    known = np.isfinite(values).all(axis=0)
    return Signal(first.series, first.meter, first.times, np.where(known, np.nansum(values, axis=0), np.nan))


RULE = Rule(
    name="link_rail_slow",
    title="one rail is slow",
    scope="cluster",
    needs=("allreduce_exposed_seconds", "net_tx_bytes"),
    judge=judge,
    doc=__doc__,
    yields_anywhere=(
        "link_slow",
        "link_shared",
        "link_lossy",
        "link_flap",
        "node_frozen",
        "node_cut",
        "pause_host_off",
        "pause_slow_receiver",
        "pause_pcie",
        "pause_storm",
        "loss_lossless_queue",
    ),
)
