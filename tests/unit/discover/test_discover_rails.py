"""Which networks become rails (not the one that carries SSH, if there is another), and their MTU."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface

import pytest

from railbed import clusterfile
from railbed.discover.build import build, notices
from railbed.discover.observation import Observation, ObservedPort, observe
from railbed.model.cluster import Cluster, Login
from railbed.model.reading import DeviceFacts, Known, Output, Unknown
from railbed.probes import ip_addr, ip_link, ssh_session

OFFICE, FAST, THIRD = "192.168.1", "10.1.0", "10.2.0"


def port(network: str, number: int, **more: object) -> ObservedPort:
    """Return a port of a machine on a network; SSH comes in over the office's."""
    fields: dict[str, object] = {"mtu": 1500 if network == OFFICE else 9000, "carries_ssh": network == OFFICE, **more}
    name = {OFFICE: "eno1", FAST: "ens2", THIRD: "ens3"}[network]
    return ObservedPort(netdev=name, interface=IPv4Interface(f"{network}.{number}/24"), **fields)  # type: ignore[arg-type]


def machine(number: int, *ports: ObservedPort) -> Observation:
    return Observation(
        host=f"gpu{number}",
        login=Login(user="ann"),
        hostname=f"gpu{number}",
        ports=ports,
        bare_rdma=(),
        gpus=(),
        addresses={port.netdev: (port.interface,) for port in ports},
    )


def subnets(cluster: Cluster) -> list[str]:
    return [str(rail.subnet) for rail in cluster.rails.values()]


def lab(count: int = 3) -> list[Observation]:
    """Return machines as the netns lab has them: an office network for SSH, and a rail with large frames."""
    return [machine(n, port(OFFICE, n, speed_gbps=1.0), port(FAST, n, speed_gbps=10.0)) for n in range(1, count + 1)]


def test_the_network_that_carries_ssh_is_not_a_rail_where_machines_share_another() -> None:
    cluster = build("lab", lab())
    assert subnets(cluster) == ["10.1.0.0/24"]
    assert (cluster.policy.host_mtu, cluster.rails["rail0"].mtu, cluster.rails["rail0"].speed) == (9000, None, 10.0)
    assert list(notices(lab())) == ["192.168.1.0/24 carries SSH and was left out: the machines share 10.1.0.0/24"]


def test_a_single_home_network_is_the_rail() -> None:
    desktops = [machine(n, port(OFFICE, n)) for n in (1, 2, 3)]
    cluster = build("home", desktops)
    assert (subnets(cluster), cluster.mtu_of("rail0")) == (["192.168.1.0/24"], 1500)
    assert list(notices(desktops)) == []


def test_what_only_one_machine_has_is_not_an_other_network() -> None:
    odd = machine(1, port(OFFICE, 1), port(FAST, 1))
    assert subnets(build("home", [odd, machine(2, port(OFFICE, 2))])) == ["192.168.1.0/24"]


@pytest.mark.parametrize(
    "fast",
    [
        {1: FAST, 2: FAST, 3: None, 4: None},
        {1: FAST, 2: FAST, 3: THIRD, 4: THIRD},
    ],
    ids=["only some have it", "two islands"],
)
def test_where_it_alone_connects_all_machines_it_stays_a_rail(fast: dict[int, str | None]) -> None:
    machines = [machine(n, port(OFFICE, n), *([port(net, n)] if net else [])) for n, net in fast.items()]
    cluster = build("home", machines)
    office = next(name for name, rail in cluster.rails.items() if str(rail.subnet) == "192.168.1.0/24")
    assert {cluster.mtu_of(name) for name in cluster.rails} == {1500, 9000}
    assert cluster.mtu_of(office) == 1500


def test_a_machine_with_another_way_for_each_peer_can_do_without() -> None:
    """Three machines and three cables: any two share one."""
    cables = {(1, 2): "10.5.0.0", (2, 3): "10.5.1.0", (1, 3): "10.5.2.0"}
    machines = []
    for number in (1, 2, 3):
        ends = [
            ObservedPort(
                netdev=f"ens{index}", interface=IPv4Interface(f"{net[:-1]}{1 + pair.index(number)}/30"), mtu=9000
            )
            for index, (pair, net) in enumerate(cables.items())
            if number in pair
        ]
        machines.append(machine(number, port(OFFICE, number), *ends))
    cluster = build("home", machines)
    assert len(cluster.rails) == 3
    assert all(rail.point_to_point for rail in cluster.rails.values())


def test_rdma_over_the_only_network_is_a_rail() -> None:
    cluster = build("lab", [machine(n, port(OFFICE, n, rdma="mlx5_0", mtu=9000)) for n in (1, 2)])
    assert subnets(cluster) == ["192.168.1.0/24"]


@pytest.mark.parametrize(
    ("speed", "mtu", "rails"),
    [
        (100.0, 9000, ["10.1.0.0/24", "192.168.1.0/24"]),
        (25.0, 9000, ["10.1.0.0/24"]),
        (100.0, 1500, ["10.1.0.0/24"]),
        (None, 9000, ["10.1.0.0/24", "192.168.1.0/24"]),
    ],
)
def test_rdma_that_carries_ssh_stays_a_rail_where_it_is_as_good(
    speed: float | None, mtu: int, rails: list[str]
) -> None:
    machines = [
        machine(
            n,
            port(OFFICE, n, rdma="mlx5_0", speed_gbps=speed, mtu=mtu),
            port(FAST, n, rdma="mlx5_1", speed_gbps=100.0),
        )
        for n in (1, 2)
    ]
    assert subnets(build("lab", machines)) == rails


def test_a_file_with_rails_gets_no_rail_of_the_network_that_carries_ssh() -> None:
    existing = build("lab", lab())
    assert build("lab", lab(), existing=existing) == existing
    broken = [machine(1, port(OFFICE, 1)), *lab()[1:]]
    assert subnets(build("lab", broken, existing=existing)) == ["10.1.0.0/24"]
    new = [machine(n, port(OFFICE, n)) for n in (7, 8)]
    assert subnets(build("lab", [*lab(), *new], existing=existing)) == ["10.1.0.0/24"]
    (notice,) = notices([*lab(), *new], existing)
    assert notice.startswith("gpu7, gpu8: no port on a rail; 192.168.1.0/24")


def test_a_home_network_with_new_addresses_is_a_rail_again() -> None:
    existing = build("home", [machine(n, port(OFFICE, n)) for n in (1, 2)])
    moved = [machine(n, port(FAST, n, carries_ssh=True)) for n in (1, 2)]
    assert subnets(build("home", moved, existing=existing)) == ["192.168.1.0/24", "10.1.0.0/24"]


def test_each_rail_has_its_own_mtu_and_speed() -> None:
    machines = [
        machine(
            n,
            port(OFFICE, n),
            port(FAST, n, speed_gbps=100.0),
            port(THIRD, n, mtu=4200, speed_gbps=10.0 if n else None),
        )
        for n in (1, 2, 3)
    ]
    cluster = build("lab", machines)
    assert {name: cluster.mtu_of(name) for name in cluster.rails} == {"rail0": 9000, "rail1": 4200}
    assert [rail.speed for rail in cluster.rails.values()] == [100.0, 10.0]
    assert clusterfile.loads(clusterfile.dumps(cluster), name="x.yaml") == cluster


def test_a_new_rail_of_an_existing_file_has_its_mtu_beside_the_files_policy() -> None:
    text = "name: x\npolicy: {pfc: false, ecn: false, host_mtu: 1500}  # ours\nnodes: {}\n".replace(
        "{}", "{gpu1: {host: gpu1}, gpu2: {host: gpu2}}"
    )
    existing = clusterfile.loads(text, name="x.yaml")
    cluster = build("x", lab(2), existing=existing)
    assert (cluster.policy, cluster.mtu_of("rail0")) == (existing.policy, 9000)
    assert "# ours" in clusterfile.rewrite(text, cluster)


def test_what_the_user_wrote_of_a_rail_stays() -> None:
    existing = build("lab", lab())
    rail = existing.rails["rail0"].model_copy(update={"mtu": 4000, "speed": 2.0})
    edited = existing.model_copy(update={"rails": {"rail0": rail}})
    assert build("lab", lab(), existing=edited) == edited


@pytest.mark.parametrize(
    ("sizes", "mtu"), [((1500, 1500, 9000), 1500), ((1500, 9000), 9000), ((68, 68), 1280), ((65520, 65520), 65520)]
)
def test_of_different_mtus_most_count_and_then_the_largest(sizes: tuple[int, ...], mtu: int) -> None:
    machines = [machine(n, port(FAST, n, mtu=size)) for n, size in enumerate(sizes, 1)]
    assert build("x", machines).mtu_of("rail0") == mtu


@pytest.mark.parametrize(("mtu", "own"), [(9216, 9216), (9000, None), (1500, None)])
def test_rdma_below_the_policy_is_a_fault_and_above_it_a_fact(mtu: int, own: int | None) -> None:
    cluster = build("x", [machine(n, port(FAST, n, mtu=mtu, rdma="mlx5_0")) for n in (1, 2)])
    assert (cluster.rails["rail0"].mtu, cluster.policy.host_mtu) == (own, 9000)


ADDRESSES = ip_addr.Addresses(
    interfaces={
        "eno1": (
            ip_addr.Address(address="192.168.1.1", prefix=24, scope="global"),
            ip_addr.Address(address="2001:db8::1", prefix=64, scope="global"),
            ip_addr.Address(address="fe80::1", prefix=64, scope="link"),
        ),
        "ens2": (
            ip_addr.Address(address="10.1.0.1", prefix=24, scope="global"),
            ip_addr.Address(address="fe80::1", prefix=64, scope="link"),
        ),
    }
)
LINKS = ip_link.Links(
    links={name: ip_link.Link(name=name, mtu=1500, state="UP", flags=()) for name in ADDRESSES.interfaces}
)
SESSION = ssh_session.SshSession


@pytest.mark.parametrize(
    ("host", "session", "netdevs"),
    [
        ("gpu1.lab", SESSION(address="192.168.1.1", port=22), {"eno1"}),
        ("10.1.0.1", SESSION(address="192.168.1.1", port=22), {"eno1"}),
        ("203.0.113.7", SESSION(address="2001:db8::1", port=22), {"eno1"}),
        ("fe80::1%eth7", SESSION(address="fe80::1", netdev="ens2", port=22), {"ens2"}),
        ("192.168.1.1", SESSION(), {"eno1"}),
        ("2001:db8::1", Unknown(reason="not in the recording"), {"eno1"}),
        ("gpu1", Unknown(reason="not in the recording"), set()),
        ("local", SESSION(), set()),
        ("gpu1", SESSION(address="127.0.0.2", port=22), set()),
    ],
)
def test_the_machine_says_which_interface_carries_ssh(
    host: str, session: ssh_session.SshSession | Unknown, netdevs: set[str]
) -> None:
    output = Output(device="a", key="", command="", stdout=b"", exit=0, sent=0.0, received=0.0)
    known = {"ip_addr": ADDRESSES, "ip_link": LINKS, "ssh_session": session}
    readings = {
        key: (fact if isinstance(fact, Unknown) else Known(facts=fact, output=output),) for key, fact in known.items()
    }
    observation = observe(host, Login(), DeviceFacts(device="a", readings=readings))
    assert {port.netdev for port in observation.ports if port.carries_ssh} == netdevs


@pytest.mark.parametrize("better", [{"mtu": 9000}, {"speed_gbps": 100.0}])
def test_ssh_over_the_better_network_does_not_cost_it(better: dict[str, object]) -> None:
    """Through a jump host on the office's network, SSH goes to the machines' fast addresses."""
    plain: dict[str, object] = {"mtu": 1500, "speed_gbps": 1.0}
    machines = [
        machine(n, port(OFFICE, n, **plain, carries_ssh=False), port(FAST, n, **{**plain, **better}, carries_ssh=True))
        for n in (1, 2)
    ]
    assert "10.1.0.0/24" in subnets(build("lab", machines))


def test_machines_reached_over_different_networks_keep_both() -> None:
    first, second = lab(2)
    swapped = replace(second, ports=tuple(replace(port, carries_ssh=not port.carries_ssh) for port in second.ports))
    assert len(build("lab", [first, swapped]).rails) == 2
