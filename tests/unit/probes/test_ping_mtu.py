"""The pings of a node are as large as the MTU of their rail."""

from __future__ import annotations

from railbed.clusterfile import loads
from railbed.model.probe import pairs_of
from railbed.probes.ping_mtu import command

TEXT = """
name: x
policy: {host_mtu: 1500}
rails: {slow: {subnet: 10.0.0.0/24}, fast: {subnet: 10.1.0.0/24, mtu: 9000}}
nodes:
  a: {host: a, ports: [{netdev: e0, rail: slow, address: 10.0.0.1}, {netdev: e1, rail: fast, address: 10.1.0.1}]}
  b: {host: b, ports: [{netdev: e0, rail: slow, address: 10.0.0.2}, {netdev: e1, rail: fast, address: 10.1.0.2}]}
"""


def test_each_rail_is_pinged_with_its_own_mtu() -> None:
    cluster = loads(TEXT, name="x.yaml")
    script = command(cluster, list(pairs_of(cluster, "a", every=True)), False)
    assert "both e0 10.0.0.2 84 56 1500 1472" in script
    assert "both e1 10.1.0.2 84 56 9000 8972" in script
