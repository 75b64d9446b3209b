"""An InfiniBand rail has one master among its subnet managers, and the priorities decide which one that is.

What
----
The ports of a rail are answered by the same master (`sminfo`), and no two managers that the subnet administration lists
have the same priority. Ethernet (RoCE) has none and is skipped; subnet_manager judges whether there is one at all.

Why
---
Two masters mean that the fabric fell apart: nodes of the two parts do not reach each other. With equal priorities, the
lowest GUID wins: a forgotten opensm on a node takes over when that node boots, and sweeps and routes the fabric anew in
the middle of a run, with partitions and routes of its own configuration.

Fix
---
Run managers in two places only, and give them different priorities: `sm_priority 15` and `14` in opensm.conf, or
`opensm -p`; on switches and UFM in their own settings. Stop those on nodes: `systemctl disable --now opensm`.

Source
------
InfiniBand Architecture Specification, volume 1, chapter 14.4 (subnet manager initialization, master election);
opensm(8), sminfo(8), saquery(8).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.hardware.infiniband import on_infiniband
from railbed.check.shared.port import by_value, rdma_name, rdma_ports, read_ports, report_unread, some
from railbed.model.text import plural
from railbed.probes import ib_subnet, infiniband
from railbed.probes.ib_subnet import MASTER, STANDBY, SubnetManager
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import RailView

EXPECTED = "one master, and different priorities"
STATES = {MASTER: "master", STANDBY: "standby"}
NO_RDMA = "no RDMA device in the cluster file"


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare the managers that the ports see."""
    _, unread = read_ports(rdma_ports(rail), infiniband.PROBE)
    yield from report_unread(unread, EXPECTED)
    ports = [port for port in rdma_ports(rail) if on_infiniband(port)]
    if not ports:
        if not unread:
            yield skip("no InfiniBand on this rail", expected=EXPECTED)
        return
    read, unread = read_ports(ports, ib_subnet.PROBE)
    yield from report_unread(unread, EXPECTED)
    masters = {port.subject: own for port, facts in read if (own := facts.masters.get(rdma_name(port)))}
    managers = {manager.guid: manager for _, facts in read for manager in facts.managers}
    if masters:
        yield _compare(masters, {**{manager.guid: manager for manager in masters.values()}, **managers})
    elif read:
        yield unknown(
            expected=EXPECTED, observed="no subnet manager answered sminfo", remedy="install infiniband-diags there"
        )


def _compare(masters: dict[str, SubnetManager], managers: dict[str, SubnetManager]) -> Judgement:
    evidence = "\n".join(
        f"{manager.guid}: priority {manager.priority}, {STATES.get(manager.state or 0, f'state {manager.state}')}"
        for manager in managers.values()
    )
    guids = {subject: manager.guid for subject, manager in masters.items()}
    if len(set(guids.values())) > 1:
        return fail(f"several masters: {by_value(guids)}", expected=EXPECTED, evidence=evidence)
    active = [manager for manager in managers.values() if manager.state in (MASTER, STANDBY)]
    priorities = [manager.priority for manager in active]
    if len(set(priorities)) < len(priorities):
        same = some(manager.guid for manager in active if priorities.count(manager.priority) > 1)
        return warn(f"the same priority: {same}", expected=EXPECTED, evidence=evidence)
    master = next(iter(masters.values()))
    standby = plural(len(active) - 1, "standby manager") if len(active) > 1 else "no standby manager listed"
    return ok(expected=EXPECTED, observed=f"priority {master.priority}, {standby}", evidence=evidence)


def _unless(rail: RailView) -> str:
    return "" if rdma_ports(rail) else NO_RDMA


RULE = Rule(
    name="subnet_managers",
    title="one master subnet manager",
    scope="rail",
    needs=(ib_subnet.PROBE, infiniband.PROBE),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
