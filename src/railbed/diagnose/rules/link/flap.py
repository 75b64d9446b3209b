"""A link went down.

What
----
The kernel counts carrier changes of a rail interface, or the card link-downs of its RDMA port.

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

from railbed.diagnose.evidence import PortView
from railbed.diagnose.rule import Judgement, Rule, fail
from railbed.diagnose.shared.growth import growths, measured
from railbed.diagnose.shared.outages import outages
from railbed.model.text.amount import duration, plural


def judge(port: PortView) -> Iterator[Judgement]:
    """Find outages by the carrier; the RDMA port counts only the way down."""
    changes, downed = port.try_read("net_carrier_changes"), port.try_read("rdma_link_downed")
    signals = measured(port, ("net_carrier_changes", "rdma_link_downed"), changes, downed)
    if changes is not None:
        for span in outages(port, changes):
            observed = f"the link was down for {duration(max(span.seconds, 1.0))}"
            yield fail(observed, span, *signals, certainty="certain", expected="the link stays up")
        return
    for span, grown in growths(signals):
        observed = f"the RDMA port went down {plural(round(grown[0].total(span)), 'time')}"
        yield fail(observed, span, *grown, certainty="certain", expected="the link stays up")


RULE = Rule(
    name="link_flap",
    title="a link went down",
    scope="port",
    needs=("net_carrier_changes", "rdma_link_downed"),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("node_cut",),
    yields_to=("node_frozen",),
)
