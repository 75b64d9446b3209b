"""The differences between two clusters, and their wording."""

from __future__ import annotations

from typing import Any

import pytest

from railbed.clusterfile import difference
from railbed.model.cluster import Cluster

BEFORE: dict[str, Any] = {
    "name": "x",
    "rails": {"r": {"subnet": "10.1.0.0/24"}},
    "nodes": {
        "n1": {
            "host": "h1",
            "ports": [
                {"netdev": "e1", "rail": "r", "address": "10.1.0.1"},
                {"netdev": "e2", "rail": "r", "address": "10.1.0.2", "rdma": "mlx5_0"},
            ],
            "gpus": [{"name": "A"}, {"name": "B"}],
        }
    },
    "switches": {"s": {"host": "h9", "ports": [{"name": "Eth1/1", "node": "n1", "netdev": "e1"}]}},
}
E1, E2 = BEFORE["nodes"]["n1"]["ports"]


def node(**changes: object) -> dict[str, Any]:
    return {**BEFORE, "nodes": {"n1": {**BEFORE["nodes"]["n1"], **changes}}}


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (BEFORE, []),
        (node(host="h2"), ["set nodes.n1.host h1 > h2"]),
        (node(python="/v/bin/python"), ["add nodes.n1.python  > /v/bin/python"]),
        (node(ports=[{**E1, "address": "10.1.0.9"}, E2]), ["set nodes.n1.ports[e1].address 10.1.0.1 > 10.1.0.9"]),
        (node(ports=[{**E1, "rdma": "mlx5_1"}, E2]), ["add nodes.n1.ports[e1].rdma  > mlx5_1"]),
        (
            node(ports=[E2]),
            ["remove nodes.n1.ports[e1] {netdev: e1, rail: r, address: 10.1.0.1} > "],
        ),
        (node(ports=[E2, E1]), ["set nodes.n1.ports e1, e2 > e2, e1"]),
        (node(gpus=[{"name": "A"}, {"name": "C"}, {"name": "D", "memory_gb": 8}]), [
            "set nodes.n1.gpus[1].name B > C",
            "add nodes.n1.gpus[2]  > {name: D, memory_gb: 8}",
        ]),
        ({**BEFORE, "login": {"user": "me", "password": {"env": "P"}}}, [
            "add login.user  > me",
            "add login.password  > {env: P}",
        ]),
        ({**BEFORE, "policy": {"pfc": False, "dscp": 24}}, ["set policy.pfc true > false", "set policy.dscp 26 > 24"]),
        ({**BEFORE, "switches": {"s": {"host": "h9", "ports": [{"name": "Eth1/1", "node": "n1", "netdev": "e2"}]}}}, [
            "set switches.s.ports[Eth1/1].netdev e1 > e2"
        ]),
        ({**BEFORE, "rails": {"r": {"subnet": "10.1.0.0/24", "speed": 12.5}, "q": {"point_to_point": True}}}, [
            "add rails.r.speed  > 12.5",
            "add rails.q  > {point_to_point: true}",
        ]),
    ],
)  # fmt: skip
def test_changes(after: dict[str, Any], message: list[str]) -> None:
    changes = difference(Cluster.model_validate(BEFORE), Cluster.model_validate(after))
    assert [f"{change.action} {change.subject} {change.before} > {change.after}" for change in changes] == message


def test_long_values_are_short() -> None:
    after = {**BEFORE, "nodes": {**BEFORE["nodes"], "n2": {"host": "h2", "gpus": [{"name": "G" * 90}] * 3}}}
    (change,) = difference(Cluster.model_validate(BEFORE), Cluster.model_validate(after))
    assert change.subject == "nodes.n2"
    assert len(change.after) == 100
