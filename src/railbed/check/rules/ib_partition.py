"""The InfiniBand ports of a rail have a partition in common, and are full members of it.

What
----
All ports have a partition key with the same lower 15 bits, and no two of them are only limited members of it (the
highest bit, `0x8000`, is set on all but one at most). Ethernet (RoCE) has one partition for all and is skipped.

Why
---
Ports without a partition in common, and two limited members of one, do not receive each other's packets: connections of
RDMA end with a time-out, although the link is up and has a subnet manager.

Fix
---
Add the ports as full members in the partitions of the subnet manager (`partitions.conf` of opensm, `ALL=full`, or UFM),
and let it read them again.

Source
------
InfiniBand Architecture Specification, volume 1, chapter 10.9 (partitioning); rdma-core, opensm(8), partition
configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railbed.check.shared.hardware.infiniband import on_infiniband
from railbed.check.shared.port import rdma_name, rdma_ports, read_ports, report_unread, some
from railbed.model.text import plural
from railbed.probes import ib_subnet, infiniband
from railbed.probes.ib_subnet import FULL_MEMBER
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import RailView

EXPECTED = "one partition with full members"
NO_RDMA = "no RDMA device in the cluster file"


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare the partition keys of all ports."""
    _, unread = read_ports(rdma_ports(rail), infiniband.PROBE)
    yield from report_unread(unread, EXPECTED)
    ports = [port for port in rdma_ports(rail) if on_infiniband(port)]
    if not ports:
        if not unread:
            yield skip("no InfiniBand on this rail", expected=EXPECTED)
        return
    read, unread = read_ports(ports, ib_subnet.PROBE)
    yield from report_unread(unread, EXPECTED)
    keys = {port.subject: facts.pkeys.get(rdma_name(port), ()) for port, facts in read}
    if empty := [subject for subject, own in keys.items() if not own]:
        yield unknown(expected=EXPECTED, observed=f"no partition keys on {some(empty)}")
    elif len(keys) > 1:
        yield _compare(keys)
    elif not unread:
        yield skip("fewer than two InfiniBand ports to compare", expected=EXPECTED)


def _compare(keys: Mapping[str, tuple[int, ...]]) -> Judgement:
    lists = "\n".join(f"{subject}: {' '.join(f'{key:#06x}' for key in own)}" for subject, own in keys.items())
    common = set.intersection(*({key & ~FULL_MEMBER for key in own} for own in keys.values()))
    if not common:
        return fail("the ports have no partition in common", expected=EXPECTED, evidence=lists)
    limited = {
        partition: [subject for subject, own in keys.items() if partition | FULL_MEMBER not in own]
        for partition in common
    }
    partition, members = min(limited.items(), key=lambda item: (len(item[1]), item[0]))
    name = f"partition {partition:#06x}"
    if len(members) > 1:
        return fail(f"{some(members)} are limited members of {name}", expected=EXPECTED, evidence=lists)
    return ok(expected=EXPECTED, observed=f"{plural(len(keys), 'port')} in {name}", evidence=lists)


def _unless(rail: RailView) -> str:
    return "" if rdma_ports(rail) else NO_RDMA


RULE = Rule(
    name="ib_partition",
    title="one partition on InfiniBand",
    scope="rail",
    needs=(ib_subnet.PROBE, infiniband.PROBE),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
