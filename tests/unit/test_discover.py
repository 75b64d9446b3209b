"""From sightings of machines to a cluster: rails by subnet, names, what an existing file keeps."""

from __future__ import annotations

from ipaddress import IPv4Interface

import pytest

from railbed import clusterfile
from railbed.discover.build import build, notices
from railbed.discover.sighting import SeenNeighbour, SeenPort, Sighting
from railbed.model.cluster import Gpu, Login


def port(netdev: str, address: str, rdma: str | None = None, **more: object) -> SeenPort:
    fields: dict[str, object] = {"mtu": 1500, **more}
    return SeenPort(netdev=netdev, interface=IPv4Interface(address), rdma=rdma, **fields)  # type: ignore[arg-type]


def machine(number: int, *ports: SeenPort, **more: object) -> Sighting:
    fields: dict[str, object] = {
        "host": f"192.0.2.{number}",
        "login": Login(user="ann"),
        "hostname": f"gpu{number}",
        "ports": ports,
        "bare_rdma": (),
        "gpus": (),
        **more,
    }
    return Sighting(**fields)  # type: ignore[arg-type]


def pair(*, speed: float | None = 40.0) -> list[Sighting]:
    return [
        machine(
            number,
            port("eno1", f"192.0.2.{number}/24"),
            port("ens2", f"10.1.0.{number}/24", "rocep130s0", speed_gbps=speed),
            port("ens2d1", f"10.2.0.{number}/30", "rocep130s0", rdma_port=2, speed_gbps=speed),
        )
        for number in (1, 2)
    ]


def test_ports_with_rdma_make_the_rails() -> None:
    cluster = build("lab", pair())
    assert {name: str(rail.subnet) for name, rail in cluster.rails.items()} == {
        "rail0": "10.1.0.0/24",
        "rail1": "10.2.0.0/30",
    }
    assert [rail.point_to_point for rail in cluster.rails.values()] == [False, True]
    assert [rail.speed for rail in cluster.rails.values()] == [40.0, 40.0]
    assert [(p.netdev, p.rdma, p.rdma_port) for p in cluster.nodes["gpu1"].ports] == [
        ("ens2", "rocep130s0", 1),
        ("ens2d1", "rocep130s0", 2),
    ]
    assert cluster.login.user == "ann"
    assert cluster.policy.pfc


def test_without_rdma_the_shared_subnets_are_the_rails() -> None:
    desktops = [
        machine(n, port("enp3s0", f"192.168.1.{n}/24"), port("wg0x", f"10.{n}.0.1/24"), gpus=(Gpu(name="RTX"),))
        for n in (1, 2, 3)
    ]
    cluster = build("home", desktops)
    assert [str(rail.subnet) for rail in cluster.rails.values()] == ["192.168.1.0/24"]
    assert (cluster.policy.pfc, cluster.policy.ecn, cluster.policy.host_mtu) == (False, False, 1500)
    assert cluster.nodes["gpu3"].gpus[0].name == "RTX"


def test_unequal_speeds_are_not_written_as_one() -> None:
    one, two = pair()[0], pair(speed=10.0)[1]
    assert build("lab", [one, two]).rails["rail0"].speed is None


def test_equal_hostnames_get_numbers() -> None:
    twins = [machine(n, port("eth0", f"10.0.0.{n}/24"), hostname="ubuntu") for n in (1, 2)]
    assert list(build("x", twins).nodes) == ["ubuntu", "ubuntu-2"]


def test_the_same_machine_twice_still_gives_a_file_that_loads() -> None:
    twice = [machine(n, port("eth0", "10.0.0.7/24"), hostname="one") for n in (1, 2)]
    cluster = build("x", twice)
    assert clusterfile.loads(clusterfile.dumps(cluster), name="x.yaml") == cluster
    assert any("same machine twice" in notice for notice in notices(twice))


def test_rdma_without_an_address_is_told() -> None:
    assert list(notices([machine(1, bare_rdma=("mlx5_3",))])) == [
        "192.0.2.1: RDMA device mlx5_3 has no IPv4 address on its interface and was left out"
    ]


def test_lldp_gives_the_switch_and_its_ports() -> None:
    nexus = SeenNeighbour(
        netdev="ens2", system="leaf1.lab", description="Cisco NX-OS", port="Ethernet1/1", addresses=("192.0.2.9",)
    )
    other = SeenNeighbour(netdev="ens2d1", system="sonic", description="SONiC", port="Ethernet0", addresses=())
    one = machine(1, *pair()[0].ports, neighbours=(nexus, other))
    cluster = build("lab", [one, pair()[1]])
    assert list(cluster.switches) == ["leaf1"]
    assert cluster.switches["leaf1"].host == "192.0.2.9"
    assert [(p.name, p.node, p.netdev) for p in cluster.switches["leaf1"].ports] == [("Ethernet1/1", "gpu1", "ens2")]


def test_a_switch_that_was_asked_for_is_there_without_lldp() -> None:
    assert build("lab", pair(), switches=["192.0.2.9"]).switches["192.0.2.9"].ports == ()


def test_an_existing_file_keeps_its_names_and_what_machines_cannot_know() -> None:
    text = clusterfile.dumps(build("lab", pair())).replace("gpu1:", "alice:").replace("rail0", "blue")
    existing = clusterfile.loads(text + "training: {rendezvous_port: 1234}\n", name="x.yaml")
    moved = [pair()[0], machine(2, port("ens2", "10.1.0.9/24", "rocep130s0", speed_gbps=40.0))]
    found = build("ignored", moved, existing=existing)
    assert found.name == "lab"
    assert "alice" in found.nodes
    assert found.training.rendezvous_port == 1234
    changes = {change.subject: (change.before, change.after) for change in clusterfile.difference(existing, found)}
    assert changes["nodes.gpu2.ports[ens2].address"] == ("10.1.0.2", "10.1.0.9")
    assert any("ens2d1" in subject for subject in changes)


def test_a_machine_that_did_not_answer_stays_in_the_file() -> None:
    existing = build("lab", pair())
    assert list(build("lab", pair()[:1], existing=existing).nodes) == ["gpu1", "gpu2"]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_what_is_built_can_be_written_and_read(count: int) -> None:
    machines = [machine(n, port("ens224", f"10.1.0.{n}/24", "mlx5_0")) for n in range(1, count + 1)]
    cluster = build("lab", machines)
    assert clusterfile.loads(clusterfile.dumps(cluster), name="x.yaml") == cluster
