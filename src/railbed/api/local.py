"""This machine as a cluster: discovered each time it is used."""

from __future__ import annotations

from contextlib import aclosing

from railbed.api.site import LOCAL_NAME, built_in_local
from railbed.discover.run import discover
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.events import ClusterBuilt
from railbed.transport.base import targets_of
from railbed.transport.local import connect_local


async def discover_local(timeout: float) -> Cluster:
    """Return this machine as a cluster of one node, with the RDMA ports and GPUs it has."""
    machine = built_in_local()
    async with (
        Fleet(targets_of(machine), connect_local, timeout=timeout) as fleet,
        aclosing(discover(machine, fleet, name=LOCAL_NAME, existing=machine)) as records,
    ):
        async for record in records:
            if isinstance(record, ClusterBuilt):
                return Cluster.model_validate(record.cluster)
    return machine
