"""What a check reads: only what the rules' verdicts on this cluster depend on."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from railbed.check.book import CHECK_BOOK
from railbed.check.needs import probes_needed
from railbed.model.cluster import Cluster, Node, Port, Rail


def cluster(port: Port | None) -> Cluster:
    nodes = {name: Node(host=name, ports=(port,) if port else ()) for name in ("a", "b")}
    return Cluster(name="x", rails={"r": Rail(subnet=ip_network("10.1.0.0/24"))} if port else {}, nodes=nodes)


@pytest.mark.parametrize(
    ("port", "read", "unread"),
    [
        (None, {"hostname", "torch", "disk", "agents"}, {"limits", "modules", "ip_addr", "firewall", "infiniband"}),
        (
            Port(netdev="eth1", rail="r", address=ip_address("10.1.0.1")),
            {"hostname", "ip_addr", "ethtool", "ping_mtu", "firewall"},
            {"limits", "modules"},
        ),
        (
            Port(netdev="eth1", rail="r", address=ip_address("10.1.0.1"), rdma="mlx5_0"),
            {"limits", "modules", "infiniband", "ip_addr"},
            set[str](),
        ),
    ],
    ids=["no ports", "no RDMA", "RDMA"],
)
def test_a_rule_that_the_file_decides_reads_nothing(port: Port | None, read: set[str], unread: set[str]) -> None:
    names = {probe.name for probe in probes_needed(CHECK_BOOK.rules.values(), cluster(port))}
    assert names >= read
    assert not names & unread
