"""Every example loads and describes its site."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.clusterfile import load
from railbed.model.cluster import Cluster

EXAMPLES = Path(__file__).parent.parent / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


def example(name: str) -> Cluster:
    return load(EXAMPLES / f"{name}.yaml")


def devices(cluster: Cluster) -> list[str]:
    return sorted({f"{port.rdma}/{port.rdma_port} on {port.netdev}" for _, port in cluster.ports() if port.rdma})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    assert load(path).name == path.stem
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text()


def test_there_are_five() -> None:
    assert len(FILES) == 5


def test_two_roce_vms() -> None:
    cluster = example("two-roce-vms")
    assert [str(port.address) for _, port in cluster.ports()] == ["192.168.250.201", "192.168.250.202"]
    assert devices(cluster) == ["rocep11s0/1 on ens192"]
    assert cluster.rails["rail0"].speed == 10
    password = cluster.switches["nexus"].login.password
    assert password is not None
    assert password.env == "NEXUS_PASSWORD"


def test_eight_vms_nexus() -> None:
    cluster = example("eight-vms-nexus")
    assert len(cluster.nodes) == 8
    assert devices(cluster) == ["rocep11s0/1 on ens192", "rocep19s0/1 on ens224"]
    assert len(cluster.switches["nexus"].ports) == 8
    assert cluster.login.jump == "ubuntu@jump.lab.example"


def test_three_desktops() -> None:
    cluster = example("three-desktops")
    assert devices(cluster) == []
    assert [gpu.memory_gb for node in cluster.nodes.values() for gpu in node.gpus] == [12, 8, 8]
    assert (cluster.policy.pfc, cluster.policy.ecn, cluster.policy.host_mtu) == (False, False, 1500)
    assert cluster.rails["lan"].speed == 1
    assert not cluster.switches


def test_v100_back_to_back() -> None:
    cluster = example("v100-back-to-back")
    assert [(rail.point_to_point, rail.speed) for rail in cluster.rails.values()] == [(True, 40), (True, 40)]
    assert devices(cluster) == ["rocep130s0/1 on ens3f0", "rocep130s0/2 on ens3f1"]
    assert not cluster.switches


def test_v100_switched_has_the_same_servers() -> None:
    cluster, cabled = example("v100-switched"), example("v100-back-to-back")
    assert devices(cluster) == devices(cabled)
    assert [node.gpus for node in cluster.nodes.values()] == [node.gpus for node in cabled.nodes.values()]
    assert not any(rail.point_to_point for rail in cluster.rails.values())
    assert len(cluster.switches["n9332pq"].ports) == 4
