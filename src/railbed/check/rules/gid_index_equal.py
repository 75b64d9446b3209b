"""The RoCE GID has the same index on all nodes of a rail.

What
----
The index of the GID of the port's address is equal on every node of the rail: that of the RoCE v2 entry, or of the v1
entry if a card of the rail has no other.

Why
---
`NCCL_IB_GID_INDEX=3` copied from a guide applies to the whole job. If the index of one node differs, that node sends
from another address or with RoCE v1: the job hangs at its first collective, or runs outside the lossless queue.

Fix
---
Leave `NCCL_IB_GID_INDEX` unset and let NCCL (2.21 and newer) choose by address and type, with
`NCCL_IB_ROCE_VERSION_NUM=2`; or give all nodes the same addresses in the same order, without leftovers.

Source
------
NCCL user guide, NCCL_IB_GID_INDEX; linux-rdma/perftest issue 44.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.card import rail_version
from railbed.check.shared.port import by_value, rdma_ports, read_ports, report_unread
from railbed.model.text import plural
from railbed.parsing.gids import gid_index
from railbed.probes import infiniband
from railbed.probes.infiniband import RdmaDevices
from railbed.rules.judgement import Judgement, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView, RailView

NOTHING_TO_COMPARE = "fewer than two RoCE GIDs to compare"


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare the indices of all ports of the rail."""
    expected = "one GID index on all nodes"
    read, unread = read_ports(rdma_ports(rail), infiniband.PROBE)
    yield from report_unread(unread, expected)
    indices = {port.subject: index for port, facts in read if (index := _index(port, facts)) is not None}
    if len(indices) < 2:
        if not unread:
            yield skip(NOTHING_TO_COMPARE, expected=expected)
    elif len(set(indices.values())) > 1:
        yield warn(expected=expected, observed=by_value({port: f"index {index}" for port, index in indices.items()}))
    else:
        yield ok(expected=expected, observed=f"index {next(iter(indices.values()))} on {plural(len(indices), 'port')}")


def _index(port: PortView, facts: RdmaDevices) -> int | None:
    device = facts.devices.get(port.port.rdma or "")
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    return gid_index(own.gids, port.port.address, rail_version(port)) if own else None


def _unless(rail: RailView) -> str:
    return "" if rdma_ports(rail) else NOTHING_TO_COMPARE


RULE = Rule(
    name="gid_index_equal",
    title="GID index equal on the rail",
    scope="rail",
    needs=(infiniband.PROBE,),
    judge=judge,
    unless=_unless,
    doc=__doc__,
    at_restart=True,
)
