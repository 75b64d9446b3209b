"""Nodes that are virtual machines of a lab: nothing is installed on them, since they disappear with the lab."""

from __future__ import annotations

import shlex
from ipaddress import ip_address

from railbed.model.cluster import Cluster


def with_training(cluster: Cluster) -> str:
    """Return how to bring up the same lab of virtual machines with what training needs; empty for other clusters.

    The nodes of a lab of namespaces use the Python of this machine, and their host is another address.
    """
    lab = cluster.lab
    if lab is None or not all(_is_virtual_machine(node.host) for node in cluster.nodes.values()):
        return ""
    options = [
        f"--name {shlex.quote(lab)} --nodes {len(cluster.nodes)}",
        *([f"--rails {len(cluster.rails)}"] if len(cluster.rails) > 1 else []),
        *(["--switch"] if cluster.switches else []),
    ]
    return (
        f"the nodes are virtual machines of lab {lab!r}: `railbed lab down --name {shlex.quote(lab)}`, "
        f"then `railbed lab up --kind vm {' '.join(options)} --with training`"
    )


def _is_virtual_machine(host: str) -> bool:
    """Whether a machine of a lab is reached at this machine's loopback."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
