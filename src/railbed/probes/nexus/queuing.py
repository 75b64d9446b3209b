"""Queues of the ports of a Nexus: packets, drops, ECN marks, pause (`show queuing interface`).

The table depends on the switch's ASIC, and all layouts are read: ALE and Broadcom (three columns, `Dropped`), cloud
scale up to 9.2 (`WRED & Tail Drop`), cloud scale since 9.3 (`WRED/AFD & Tail Drop`, `ECN`), and the Nexus 5000.
"""

from __future__ import annotations

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines
from railbed.parsing.nexus.answer import read_object
from railbed.parsing.nexus.queuing import SwitchQueues, queues_of_json, queues_of_text


def parse(text: str) -> SwitchQueues:
    """Read both forms."""
    fields, lines = read_object(text), Lines(text)
    queues = queues_of_json(fields) if fields else queues_of_text(lines)
    lines.require(queues.ports, "no port")
    return queues


PROBE = Probe(
    name="nexus_queuing",
    title="queues of the ports of a Nexus: packets, drops, ECN marks, pause",
    command="show queuing interface | json\nshow queuing interface",
    parse=parse,
    facts=SwitchQueues,
    runs_on="switch",
    twice=True,
    timeout=30.0,
    one_line=True,
)
