"""The environment of the fabric, from a cluster file and the facts of nodes, line by line."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from pydantic import TypeAdapter

from railbed.bench.schedule import make_schedule
from railbed.bench.site import site_of
from railbed.bench.suite import Suite
from railbed.bench.tools import perftest
from railbed.launch.common_network import MeetingPlace, meeting_places
from railbed.launch.fabric import NodeFabric, fabric_environment, fabric_of
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts, DeviceFailure, Known, Output, Unknown
from railbed.probes import infiniband, ip_addr, limits

UNLIMITED = "Max locked memory         unlimited            unlimited            bytes\n"
SMALL = "Max locked memory         65536                65536                bytes\n"


def cluster(*, rails: int = 1, rdma: bool = True, **policy: Any) -> Cluster:
    ports = [
        [
            {
                "netdev": f"eth{rail + 1}",
                "rail": f"rail{rail}",
                "address": f"10.1.{rail}.{number}",
                **({"rdma": f"mlx5_{rail}"} if rdma else {}),
            }
            for rail in range(rails)
        ]
        for number in (1, 2)
    ]
    return Cluster.model_validate(
        {
            "name": "pair",
            "policy": policy,
            "rails": {f"rail{rail}": {"subnet": f"10.1.{rail}.0/24"} for rail in range(rails)},
            "nodes": {name: {"host": f"10.0.0.{name}", "ports": own} for name, own in zip("ab", ports, strict=True)},
        }
    )


def tree(number: int, *, rails: int = 1, indices: tuple[int, ...] = (3, 3), layer: str = "Ethernet") -> str:
    """Return the sysfs tree of a node whose GID table has RoCE v1 and a link-local entry before the right one."""
    lines = []
    for rail in range(rails):
        port = f"mlx5_{rail}/ports/1"
        mapped = ip_address(f"::ffff:10.1.{rail}.{number}").exploded
        lines += [f"{port}/state:4: ACTIVE", f"{port}/link_layer:{layer}"]
        gids = {
            0: ("fe80::1", "RoCE v2"),
            indices[rail] - 1: (mapped, "IB/RoCE v1"),
            indices[rail]: (mapped, "RoCE v2"),
        }
        for index, (gid, kind) in gids.items():
            lines += [f"{port}/gids/{index}:{ip_address(gid).exploded}", f"{port}/gid_attrs/types/{index}:{kind}"]
    return "\n".join(lines) + "\n"


def known(facts: Any) -> Known[Any]:
    output = Output(device="a", key="", command="", stdout=b"", exit=0, sent=0, received=0)
    return Known(facts=facts, output=output)


def node(name: str, rdma: str, memory: str = UNLIMITED) -> DeviceFacts:
    return DeviceFacts(
        device=name,
        readings={"infiniband": (known(infiniband.parse(rdma)),), "limits": (known(limits.parse(memory)),)},
    )


def values(fabric: NodeFabric) -> dict[str, str]:
    return {line.name: line.value for line in fabric.lines}


def test_one_rail() -> None:
    fabric = fabric_of(cluster(), {"a": node("a", tree(1)), "b": node("b", tree(2, indices=(5, 5)))})
    assert values(fabric["a"]) == {
        "NCCL_IB_HCA": "=mlx5_0:1",
        "NCCL_NET": "IB",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_TC": "106",
        "NCCL_IB_TIMEOUT": "20",
        "NCCL_IB_RETRY_CNT": "7",
        "NCCL_SOCKET_IFNAME": "=eth1",
        "UCX_NET_DEVICES": "mlx5_0:1",
        "UCX_TLS": "rc_v,self",
        "UCX_IB_GID_INDEX": "3",
        "UCX_IB_TRAFFIC_CLASS": "106",
        "UCX_RC_VERBS_TIMEOUT": "4.3s",
        "UCX_RC_VERBS_RETRY_COUNT": "7",
        "GLOO_SOCKET_IFNAME": "eth1",
        "memlock": "unlimited",
    }
    assert "memlock" not in fabric["a"].environment
    assert fabric["b"].environment["NCCL_IB_GID_INDEX"] == "5"  # every node has its own
    assert all(line.reason for line in fabric["a"].lines)
    assert not fabric["a"].obstacle


def test_several_rails_are_used_together() -> None:
    facts = {"a": node("a", tree(1, rails=2)), "b": node("b", tree(2, rails=2, indices=(3, 7)))}
    fabric = fabric_of(cluster(rails=2), facts)
    assert values(fabric["a"])["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"
    assert values(fabric["a"])["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
    assert values(fabric["a"])["UCX_MAX_RNDV_RAILS"] == "2"
    assert values(fabric["a"])["NCCL_CROSS_NIC"] == "0"
    assert values(fabric["a"])["NCCL_IB_GID_INDEX"] == "3"
    # One variable cannot name two indices: NCCL and UCX look for themselves, NCCL by type and family.
    assert "NCCL_IB_GID_INDEX" not in values(fabric["b"])
    assert "UCX_IB_GID_INDEX" not in values(fabric["b"])
    assert values(fabric["b"])["NCCL_IB_ROCE_VERSION_NUM"] == "2"
    assert values(fabric["b"])["NCCL_IB_ADDR_FAMILY"] == "AF_INET"


def test_a_rail_that_one_node_cannot_use_is_used_by_none() -> None:
    facts = {"a": node("a", tree(1, rails=2)), "b": node("b", tree(2, rails=1))}
    fabric = fabric_of(cluster(rails=2), facts)
    assert {value.environment["NCCL_IB_HCA"] for value in fabric.values()} == {"=mlx5_0:1"}


def ring(number: int) -> Cluster:
    """Return nodes that are cabled in a ring with both functions of each cable, as DGX Sparks are."""
    names = "abcdef"[:number]
    nodes, rails = {}, {}
    for at, name in enumerate(names):
        ports = []
        for side, cable in ((0, at), (1, (at - 1) % number)):
            for twin, function in enumerate(("rocep1s0", "roceP2p1s0")):
                rail = f"cable{cable}{'ab'[twin]}"
                rails[rail] = {"subnet": f"192.168.{2 * cable + twin}.0/24", "point_to_point": True}
                ports.append(
                    {
                        "netdev": f"en{function[4:]}f{side}np{side}",
                        "rail": rail,
                        "rdma": f"{function}f{side}",
                        "address": f"192.168.{2 * cable + twin}.{side + 1}",
                    }
                )
        nodes[name] = {"host": f"10.0.0.{at + 1}", "ports": ports}
    return Cluster.model_validate({"name": "ring", "rails": rails, "nodes": nodes})


def facts_of(wanted: Cluster, *, same_bridges: bool = True) -> dict[str, DeviceFacts]:
    """Return the facts of nodes whose cards all work, and which have a management network and a bridge each."""
    facts = {}
    for at, (name, own) in enumerate(wanted.nodes.items(), 1):
        lines, addresses = [], []
        for port in own.ports:
            files = f"{port.rdma}/ports/1"
            lines += [f"{files}/state:4: ACTIVE", f"{files}/link_layer:Ethernet"]
            mapped = ip_address(f"::ffff:{port.address}").exploded
            lines += [f"{files}/gids/3:{mapped}", f"{files}/gid_attrs/types/3:RoCE v2"]
            addresses.append((port.netdev, str(port.address)))
        addresses += [("docker0", "172.17.0.1" if same_bridges else f"172.17.0.{at}"), ("enP7s7", own.host)]
        interfaces = {netdev: [{"address": address, "prefix": 24, "scope": "global"}] for netdev, address in addresses}
        readings = {
            "infiniband": (known(infiniband.parse("\n".join(lines) + "\n")),),
            "limits": (known(limits.parse(UNLIMITED)),),
            "ip_addr": (known(TypeAdapter(ip_addr.Addresses).validate_python({"interfaces": interfaces})),),
        }
        facts[name] = DeviceFacts(device=name, readings=readings)
    return facts


def test_a_ring_of_three_uses_all_cables_and_meets_on_the_network_that_all_have() -> None:
    wanted = ring(3)
    fabric = fabric_of(wanted, facts_of(wanted))
    assert all(not node_fabric.obstacle for node_fabric in fabric.values())
    both_ports = "rocep1s0f0:1,roceP2p1s0f0:1,rocep1s0f1:1,roceP2p1s0f1:1"
    assert (
        values(fabric["a"]).items()
        >= {
            "NCCL_IB_HCA": f"={both_ports}",
            "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
            "NCCL_NET_PLUGIN": "none",
            "NCCL_IB_MERGE_NICS": "0",
            "NCCL_CROSS_NIC": "1",
            "NCCL_SOCKET_IFNAME": "=enP7s7",
            "GLOO_SOCKET_IFNAME": "enP7s7",
            "UCX_NET_DEVICES": both_ports,
            "UCX_IB_ROCE_REACHABILITY_MODE": "local_subnet",
            "UCX_MAX_RNDV_RAILS": "2",
        }.items()
    )
    meetings = {name: node_fabric.meeting for name, node_fabric in fabric.items()}
    assert {name: place and place.address for name, place in meetings.items()} == {
        "a": "10.0.0.1",
        "b": "10.0.0.2",
        "c": "10.0.0.3",
    }


def test_a_ring_of_four_has_pairs_without_a_cable_and_so_no_rdma() -> None:
    wanted = ring(4)
    fabric = fabric_of(wanted, facts_of(wanted))
    assert {node_fabric.obstacle for node_fabric in fabric.values()} == {
        "no rail has RDMA on all nodes, and a and c share none: NCCL, UCX and MPI connect all pairs"
    }
    assert "through a switch" in fabric["a"].remedy
    assert values(fabric["a"])["GLOO_SOCKET_IFNAME"] == "enP7s7"


def test_a_cable_of_a_ring_without_rdma_is_the_obstacle() -> None:
    wanted = ring(3)
    facts = facts_of(wanted)
    devices = facts["b"].read(infiniband.PROBE)
    assert isinstance(devices, Known)
    for name in ("rocep1s0f0", "roceP2p1s0f0"):
        device = devices.facts.devices[name]
        devices.facts.devices[name] = replace(device, ports={"1": replace(device.ports["1"], state="DOWN")})
    fabric = fabric_of(wanted, facts)
    assert "b/enp1s0f0np0: rocep1s0f0 port 1 is DOWN" in fabric["a"].obstacle


def test_nodes_meet_on_their_first_ports_unless_these_are_on_different_rails() -> None:
    facts = {"a": node("a", tree(1, rails=2)), "b": node("b", tree(2, rails=2))}
    turned = cluster(rails=2).model_dump(mode="json", exclude_none=True)
    turned["nodes"]["b"]["ports"].reverse()
    fabric = fabric_of(Cluster.model_validate(turned), facts)
    assert [values(fabric[name])["GLOO_SOCKET_IFNAME"] for name in "ab"] == ["eth1", "eth1"]
    assert "NCCL_IB_SUBNET_AWARE_ROUTING" not in values(fabric["a"])


def test_a_network_that_one_node_lacks_and_bridges_are_no_meeting_place() -> None:
    wanted = ring(3)
    facts = facts_of(wanted)
    addresses = facts["c"].read(ip_addr.PROBE)
    assert isinstance(addresses, Known)
    del addresses.facts.interfaces["enP7s7"]
    assert meeting_places(wanted, facts)["a"].interface == "enp1s0f0np0"
    facts = facts_of(wanted, same_bridges=False)
    addresses = facts["c"].read(ip_addr.PROBE)
    assert isinstance(addresses, Known)
    del addresses.facts.interfaces["enP7s7"]
    assert {place.address for place in meeting_places(wanted, facts).values()} == {f"172.17.0.{n}" for n in (1, 2, 3)}


def test_the_policy_decides_the_marking() -> None:
    facts = {"a": node("a", tree(1)), "b": node("b", tree(2))}
    assert fabric_of(cluster(ecn=False), facts)["a"].environment["NCCL_IB_TC"] == "104"
    assert fabric_of(cluster(dscp=10), facts)["a"].environment["UCX_IB_TRAFFIC_CLASS"] == "42"


def of_version(number: int, *versions: str, rails: int = 1, indices: tuple[int, ...] = (3, 3)) -> str:
    """Return the tree of a node without the entries of other RoCE versions, such as a ConnectX-3 has it."""
    lines = tree(number, rails=rails, indices=indices).splitlines()
    types = dict(line.split("gid_attrs/types/")[1].split(":", 1) for line in lines if "gid_attrs" in line)
    dropped = {f"/{index}:" for index, kind in types.items() if kind not in versions}
    return "\n".join(line for line in lines if not any(index in line for index in dropped)) + "\n"


V1, V2 = "IB/RoCE v1", "RoCE v2"


def test_roce_v1_alone_works_on_a_subnet_without_marking() -> None:
    fabric = fabric_of(cluster(), {"a": node("a", of_version(1, V1)), "b": node("b", of_version(2, V1))})
    assert values(fabric["a"]) == {
        "NCCL_IB_HCA": "=mlx5_0:1",
        "NCCL_NET": "IB",
        "NCCL_IB_GID_INDEX": "2",
        "NCCL_IB_SL": "3",
        "NCCL_IB_TIMEOUT": "20",
        "NCCL_IB_RETRY_CNT": "7",
        "NCCL_SOCKET_IFNAME": "=eth1",
        "UCX_NET_DEVICES": "mlx5_0:1",
        "UCX_TLS": "rc_v,self",
        "UCX_IB_GID_INDEX": "2",
        "UCX_IB_SL": "3",
        "UCX_RC_VERBS_TIMEOUT": "4.3s",
        "UCX_RC_VERBS_RETRY_COUNT": "7",
        "GLOO_SOCKET_IFNAME": "eth1",
        "memlock": "unlimited",
    }
    reasons = {line.name: line.reason for line in fabric["a"].lines}
    assert reasons["UCX_IB_GID_INDEX"].startswith("the RoCE v1 entry of 10.1.0.1")
    without_pfc = fabric_of(cluster(pfc=False), {"a": node("a", of_version(1, V1)), "b": node("b", of_version(2, V1))})
    assert not {"NCCL_IB_SL", "UCX_IB_SL"} & values(without_pfc["a"]).keys()


def test_a_card_with_both_versions_uses_that_of_its_peers() -> None:
    facts = {"a": node("a", of_version(1, V1)), "b": node("b", tree(2, indices=(5, 5)))}
    fabric = fabric_of(cluster(), facts)
    assert values(fabric["b"])["UCX_IB_GID_INDEX"] == "4"
    assert "UCX_IB_TRAFFIC_CLASS" not in values(fabric["b"])


def test_versions_without_a_common_one_are_an_obstacle() -> None:
    facts = {"a": node("a", of_version(1, V1)), "b": node("b", of_version(2, V2))}
    fabric = fabric_of(cluster(), facts)
    assert fabric["a"].obstacle == "mlx5_0 has only RoCE v1 for 10.1.0.1, and another port of rail0 only RoCE v2"
    assert "Soft-RoCE only v2" in fabric["a"].remedy


def test_two_rails_of_roce_v1_with_different_indices() -> None:
    """UCX has one index for all devices, and would choose v2 itself on a card that has both."""
    facts = {
        "a": node("a", of_version(1, V1, rails=2, indices=(3, 6))),
        "b": node("b", tree(2, rails=2, indices=(3, 6))),
    }
    for fabric in fabric_of(cluster(rails=2), facts).values():
        assert values(fabric)["NCCL_IB_ROCE_VERSION_NUM"] == "1"
        assert values(fabric)["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"
        assert values(fabric)["UCX_NET_DEVICES"] == "mlx5_0:1"
        assert values(fabric)["UCX_IB_GID_INDEX"] == "2"
        assert "UCX_MAX_RNDV_RAILS" not in values(fabric)


def test_a_rail_of_roce_v1_beside_one_of_v2_is_left_out_and_named() -> None:
    old = of_version(1, V1, rails=2).splitlines()
    new = tree(1, rails=2).splitlines()
    mixed = [line for line in old if "mlx5_1/" in line] + [line for line in new if "mlx5_0/" in line]
    facts = {"a": node("a", "\n".join(mixed) + "\n"), "b": node("b", tree(2, rails=2))}
    for fabric in fabric_of(cluster(rails=2), facts).values():
        assert values(fabric)["UCX_NET_DEVICES"] == "mlx5_0:1"
        assert values(fabric)["NCCL_IB_TC"] == "106"
        assert values(fabric)["left out"] == "rail1"
        assert "left out" not in fabric.environment


def test_bench_uses_the_same_gid_and_marks_nothing_that_has_no_mark() -> None:
    site = site_of(cluster(), {"a": node("a", of_version(1, V1)), "b": node("b", tree(2))})
    assert {port.end.node: (port.end.gid_index, port.end.roce_v1, port.no_rdma) for port in site.ports} == {
        "a": (2, True, ""),
        "b": (2, True, ""),
    }
    suite = Suite.model_validate({"steps": [{"test": "ib_write_lat", "direction": "one"}]})
    (trial,) = make_schedule(suite, site).trials
    assert trial.flows[0].call.settings.traffic_class is None
    command = perftest.client(trial.flows[0].call)
    assert "-x 2" in command
    assert "--tclass" not in command


def test_hcas_without_ipoib_are_used_and_ranks_meet_on_another_network() -> None:
    values_of = {
        name: {"host": f"10.0.0.{at}", "hcas": [{"rdma": f"mlx5_{hca}", "rail": f"ib{hca}"} for hca in (0, 1)]}
        for at, name in enumerate("ab", 1)
    }
    rails = {"ib0": {"infiniband": True}, "ib1": {"infiniband": True}}
    wanted = Cluster.model_validate({"name": "ib", "rails": rails, "nodes": values_of})
    files = "".join(f"mlx5_{n}/ports/1/state:4: ACTIVE\nmlx5_{n}/ports/1/link_layer:InfiniBand\n" for n in (0, 1))
    facts = facts_of(wanted)
    for name, own in facts.items():
        facts[name] = replace(own, readings={**own.readings, "infiniband": (known(infiniband.parse(files)),)})
    fabric = fabric_of(wanted, facts)
    assert values(fabric["a"]) == {
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "NCCL_NET": "IB",
        "NCCL_IB_TIMEOUT": "20",
        "NCCL_IB_RETRY_CNT": "7",
        "NCCL_CROSS_NIC": "0",
        "NCCL_SOCKET_IFNAME": "=enP7s7",
        "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1",
        "UCX_TLS": "rc_v,self",
        "UCX_RC_VERBS_TIMEOUT": "4.3s",
        "UCX_RC_VERBS_RETRY_COUNT": "7",
        "UCX_MAX_RNDV_RAILS": "2",
        "GLOO_SOCKET_IFNAME": "enP7s7",
        "memlock": "unlimited",
    }
    assert fabric["b"].meeting == MeetingPlace(interface="enP7s7", address="10.0.0.2", network="10.0.0.0/24")
    ethernet = infiniband.parse(files.replace("InfiniBand", "Ethernet"))
    facts["b"] = replace(facts["b"], readings={**facts["b"].readings, "infiniband": (known(ethernet),)})
    assert fabric_of(wanted, facts)["b"].obstacle == "mlx5_0 port 1 is Ethernet, not InfiniBand"


def test_infiniband_has_neither_gid_nor_traffic_class() -> None:
    fabric = fabric_of(cluster(), {"a": node("a", tree(1, layer="InfiniBand")), "b": node("b", tree(2))})
    assert not {"NCCL_IB_GID_INDEX", "NCCL_IB_TC", "UCX_IB_GID_INDEX"} & values(fabric["a"]).keys()


WITHOUT_RDMA = [
    (node("b", ""), "no RDMA device mlx5_0 port 1 on the node (there: none)"),
    (node("b", tree(9)), "mlx5_0 has no RoCE v2 GID for 10.1.0.2"),
    (node("b", tree(2).replace("4: ACTIVE", "1: DOWN")), "mlx5_0 port 1 is DOWN"),
    (node("b", tree(2), SMALL), "its processes may lock only 65536 bytes of memory"),
    (node("b", tree(2) + "mlx5_0/node_type:4: RNIC\n"), "mlx5_0 is iWARP, which NCCL and UCX do not support"),
    (
        DeviceFacts(device="b", readings={"infiniband": (Unknown(reason="it hung"),)}),
        "its RDMA devices could not be read: it hung",
    ),
]


@pytest.mark.parametrize(("facts", "why"), WITHOUT_RDMA, ids=lambda value: value if isinstance(value, str) else "")
def test_a_node_without_rdma_has_the_reason_and_takes_it_from_all(facts: DeviceFacts, why: str) -> None:
    fabric = fabric_of(cluster(), {"a": node("a", tree(1)), "b": facts})
    assert fabric["b"].obstacle == why
    assert fabric["a"].obstacle == f"RDMA needs both ends, and b has none: {why}"
    for node_fabric in fabric.values():
        assert values(node_fabric) == {"GLOO_SOCKET_IFNAME": "eth1"}


@pytest.mark.parametrize(("facts", "why"), WITHOUT_RDMA, ids=lambda value: value if isinstance(value, str) else "")
def test_bench_has_the_same_answer_for_a_port(facts: DeviceFacts, why: str) -> None:
    site = site_of(cluster(), {"a": node("a", tree(1)), "b": facts})
    assert {port.end.node: port.no_rdma for port in site.ports} == {"a": "", "b": why}


def test_a_node_that_does_not_answer_holds_up_no_other() -> None:
    gone = DeviceFacts(device="b", failure=DeviceFailure(reason="no route to host"))
    fabric = fabric_of(cluster(), {"a": node("a", tree(1)), "b": gone})
    assert fabric["b"].obstacle == "not read: no route to host"
    assert fabric["a"].environment["NCCL_NET"] == "IB"


def test_no_rdma_in_the_file() -> None:
    wanted = cluster(rdma=False)
    lines = fabric_environment(wanted, {"a": node("a", ""), "b": node("b", "")})
    assert {name: [line.name for line in own] for name, own in lines.items()} == {
        "a": ["GLOO_SOCKET_IFNAME"],
        "b": ["GLOO_SOCKET_IFNAME"],
    }


def test_a_gpu_node_without_rdma_has_the_reason() -> None:
    wanted = cluster(rdma=False).model_dump(mode="json", exclude_none=True)
    wanted["nodes"]["a"]["gpus"] = [{"name": "NVIDIA L4"}]
    fabric = fabric_of(Cluster.model_validate(wanted), {"a": node("a", ""), "b": node("b", "")})
    assert fabric["a"].environment == {
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "=eth1",
        "GLOO_SOCKET_IFNAME": "eth1",
    }


def test_this_machine_alone() -> None:
    wanted = Cluster.model_validate({"name": "local", "nodes": {"local": {"host": "local"}}})
    assert fabric_of(wanted, {"local": node("local", "")})["local"].environment == {"GLOO_SOCKET_IFNAME": "lo"}
