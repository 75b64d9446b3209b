"""The general remedy of a rule, with the names of the subject that it is shown for in place of `IF`, `HOST`, …"""

from __future__ import annotations

import re
import shlex

from railbed.model.cluster import Cluster, Node, Port

PLACEHOLDER = re.compile(r"\b(?:ADDRESS/PREFIX|USER@HOST|HOST|IF|DEVICE|SUBNET)\b")


def fill_in(text: str, cluster: Cluster, subject: str) -> str:
    """Return a remedy with the names of a node, and of one of its ports if the subject is one.

    What the subject does not determine stays: a rule about a whole rail has no interface.
    """
    name, _, netdev = subject.partition("/")
    node = cluster.nodes.get(name)
    if node is None:
        return text
    ports = [port for port in node.rdma_ports if port.netdev == netdev] if netdev else node.ports
    values = _of_node(cluster, node) | (_of_port(cluster, ports[0]) if len(ports) == 1 else {})
    return PLACEHOLDER.sub(lambda match: values.get(match[0], match[0]), text)


def _of_node(cluster: Cluster, node: Node) -> dict[str, str]:
    user = node.login.over(cluster.login).user
    return {"HOST": node.host, "USER@HOST": f"{user}@{node.host}" if user else node.host}


def _of_port(cluster: Cluster, port: Port) -> dict[str, str]:
    values = {} if port.is_hca else {"IF": shlex.quote(port.netdev)}
    if port.rdma:
        values["DEVICE"] = port.rdma
    if (subnet := cluster.rails[port.rail].subnet) and not port.is_hca:
        values |= {"ADDRESS/PREFIX": f"{port.address}/{subnet.prefixlen}", "SUBNET": str(subnet)}
    return values
