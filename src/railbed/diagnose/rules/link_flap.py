"""A link went down.

What
----
The kernel counts carrier changes of a rail interface, or the card link-downs of its RDMA port. Outages less than ten
seconds apart are one verdict, also if each was shorter than the time between two samples.

Why
---
Each flap breaks the connections on the port or stops them for seconds; NCCL gives up after its retries and the job
starts again from the last checkpoint.

Fix
---
Reseat or replace cable and transceiver; `dmesg` and the switch's log show the reason. `railbed check link_up
link_flaps` shows the state now.

Source
------
Linux kernel documentation, sysfs-class-net (`carrier_changes`); InfiniBand, link_downed.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import growths, measured_signals
from railbed.diagnose.shared.steps import CHANGES, describe, episodes, outages, span_of
from railbed.model.text import plural
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.signal import BRIDGE_SECONDS
from railbed.rules.site import PortView

DOWNED = "rdma_link_downed"


def judge(port: PortView) -> Iterator[Judgement]:
    """Find outages by the carrier; the RDMA port counts only the way down."""
    changes, downed = port.try_signal(CHANGES), port.try_signal(DOWNED)
    signals = measured_signals(port, (CHANGES, DOWNED), changes, downed)
    spans = []
    for episode in episodes(outages(port)) if changes is not None else ():
        spans.append(span_of(episode))
        observed = f"the link {describe(episode, signals[0].interval)}"
        yield fail(observed, *signals, span=spans[-1], certainty="certain", expected="the link stays up")
    for span, grown in growths([downed] if downed is not None else []):
        if not any(span.widen(BRIDGE_SECONDS).overlaps(other) for other in spans):
            observed = f"the RDMA port went down {plural(round(grown[0].total(span)), 'time')}"
            yield fail(observed, *grown, span=span, certainty="certain", expected="the link stays up")


RULE = Rule(
    name="link_flap",
    title="a link went down",
    scope="port",
    needs=(CHANGES, DOWNED),
    judge=judge,
    doc=__doc__,
    yields_to=("node_frozen", "node_cut"),
)
