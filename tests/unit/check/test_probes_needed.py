"""What a check reads: only what the rules' verdicts on this cluster depend on.

A rule says by `unless` what the cluster file alone decides. `unless` is complete if judging any other subject reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import TypeVar

import pytest

from railbed.check.book import CHECK_BOOK, probes_needed
from railbed.model.cluster import Bmc, Cluster, Node, Port, Rail, Switch, SwitchPort
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.rules.site import Site

F = TypeVar("F")


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


class WouldRead(Exception):
    """A rule reads facts."""


class Unreadable(DeviceFacts):
    def _reading(self, probe: Probe[F], index: int) -> Known[F] | Unknown:
        raise WouldRead(f"reading {index} of {probe.name}")


def full_cluster() -> Cluster:
    """Return two nodes on two rails of a switch, with RDMA and a speed on one of them."""
    nodes = {}
    for number, name in enumerate(("a", "b"), 1):
        rdma = Port(netdev="eth1", rail="r", address=ip_address(f"10.1.0.{number}"), rdma="mlx5_0")
        plain = Port(netdev="eth2", rail="s", address=ip_address(f"10.2.0.{number}"))
        nodes[name] = Node(host=name, ports=(rdma, plain), bmc=Bmc(host=f"{name}-bmc"))
    cables = tuple(SwitchPort(name=f"Ethernet1/{number}", node=name, netdev="eth1") for number, name in enumerate("ab"))
    rails = {"r": Rail(subnet=ip_network("10.1.0.0/24"), speed=100.0), "s": Rail(subnet=ip_network("10.2.0.0/24"))}
    return Cluster(name="x", rails=rails, nodes=nodes, switches={"s1": Switch(host="s1", ports=cables)})


def clusters() -> Iterator[Cluster]:
    """Yield clusters that differ in what rules depend on."""
    full = full_cluster()
    for off in ([], ["pfc"], ["ecn"], ["pfc", "ecn"]):
        yield full.model_copy(update={"policy": full.policy.model_copy(update=dict.fromkeys(off, False))})
    yield full.model_copy(update={"switches": {}})
    yield full.model_copy(update={"nodes": {"a": full.nodes["a"]}, "switches": {}})
    yield full.model_copy(update={"training": full.training.model_copy(update={"rendezvous_port": 29500})})
    yield full.model_copy(update={"login": full.login.model_copy(update={"slurm_job": 7})})
    for port in (None, Port(netdev="eth1", rail="r", address=ip_address("10.1.0.1"))):
        yield cluster(port)


@pytest.mark.parametrize("name", sorted(name for name, rule in CHECK_BOOK.rules.items() if rule.needs))
def test_a_rule_reads_exactly_where_the_file_does_not_decide(name: str) -> None:
    rule = CHECK_BOOK.rules[name]
    is_judged = False
    for tried in clusters():
        devices = (*tried.nodes, *tried.switches, *tried.bmcs())
        site = Site(tried, {device: Unreadable(device=device) for device in devices})
        for subject in CHECK_BOOK.subjects(rule.scope, site):
            if rule.pointless(subject):
                continue
            is_judged = True
            with pytest.raises(WouldRead):
                list(rule.judge(subject))
    assert is_judged
