"""From observations of machines to a cluster: rails by subnet, names, what is taken from an existing file."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface, IPv6Interface
from typing import Any

import pytest

from railbed import clusterfile
from railbed.discover.build import build, notices
from railbed.discover.machine import free_name
from railbed.discover.observation import GPUS, PORTS, RDMA, Observation, ObservedPort, observe
from railbed.model.cabling import Neighbour
from railbed.model.cluster import Cluster, Gpu, Login
from railbed.model.reading import DeviceFacts, Known, Output, Unknown
from railbed.probes import gpu, hostname, infiniband, ip_addr, ip_link, lldp, rdma_link


def port(netdev: str, address: str, rdma: str | None = None, **more: object) -> ObservedPort:
    fields: dict[str, object] = {"mtu": 1500, **more}
    return ObservedPort(netdev=netdev, interface=IPv4Interface(address), rdma=rdma, **fields)  # type: ignore[arg-type]


def machine(number: int, *ports: ObservedPort, **more: object) -> Observation:
    fields: dict[str, object] = {
        "host": f"192.0.2.{number}",
        "login": Login(user="ann"),
        "hostname": f"gpu{number}",
        "ports": ports,
        "bare_rdma": (),
        "gpus": (),
        "addresses": {port.netdev: (port.interface,) for port in ports},
        **more,
    }
    return Observation(**fields)  # type: ignore[arg-type]


def pair(*, speed: float | None = 40.0) -> list[Observation]:
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
    slow, fast = pair()[0], pair(speed=10.0)[1]
    assert build("lab", [slow, fast]).rails["rail0"].speed is None


def test_equal_hostnames_get_numbers() -> None:
    twins = [machine(n, port("eth0", f"10.0.0.{n}/24"), hostname="ubuntu") for n in (1, 2)]
    assert list(build("x", twins).nodes) == ["ubuntu", "ubuntu-2"]


def test_the_same_machine_twice_still_gives_a_file_that_loads() -> None:
    twice = [machine(n, port("eth0", "10.0.0.7/24"), hostname="one") for n in (1, 2)]
    cluster = build("x", twice)
    assert clusterfile.loads(clusterfile.dumps(cluster), name="x.yaml") == cluster
    assert any("same machine twice" in notice for notice in notices(twice))


def test_one_address_on_two_interfaces_stands_once() -> None:
    twice = machine(1, port("e1", "10.0.0.7/24", "mlx5_0"), port("e2", "10.0.0.7/24", "mlx5_1"))
    assert [port.netdev for port in loaded(build("x", [twice])).nodes["gpu1"].ports] == ["e1"]
    assert list(notices([twice])) == [
        "192.0.2.1: e2 was left out: 10.0.0.7 is on e1 of 192.0.2.1; do two interfaces have the same address?"
    ]


def test_an_address_that_its_wider_network_has_but_the_rail_has_not_is_on_no_rail() -> None:
    odd = machine(2, port("e1", "10.1.0.127/16"))
    cluster = loaded(build("x", [machine(1, port("e1", "10.1.0.1/25", "mlx5_0")), odd]))
    assert cluster.nodes["gpu2"].ports == ()


def test_a_cable_has_two_ends_with_an_address_each() -> None:
    first, second = (machine(n, port("e1", f"10.2.0.{n}/31", "mlx5_0")) for n in (2, 3))
    assert loaded(build("lab", [first, second])).rails["rail0"].point_to_point
    same = machine(4, port("e1", "10.2.0.2/31", "mlx5_0"))
    assert not loaded(build("lab", [first, same])).rails["rail0"].point_to_point


def test_the_recorded_login_of_all_stays_in_a_new_file() -> None:
    common = Login(user="bob", port=2222, key="~/.ssh/id")
    sightings = [replace(node, login=Login(), common_login=common) for node in pair()]
    assert build("lab", sightings).login == common
    named = [replace(sighting, login=Login(user="ann")) for sighting in sightings]
    assert build("lab", named).login == Login(user="ann", port=2222, key="~/.ssh/id")
    assert {node.login for node in build("lab", named).nodes.values()} == {Login()}
    mixed = [sightings[0], named[1]]
    assert [node.login.user for node in build("lab", mixed).nodes.values()] == [None, "ann"]
    assert build("lab", mixed).login == common


def test_hosts_count_by_their_numbers() -> None:
    twins = [machine(n, hostname="ubuntu") for n in (10, 9)]
    assert {name: node.host for name, node in build("x", twins).nodes.items()} == {
        "ubuntu-2": "192.0.2.10",
        "ubuntu": "192.0.2.9",
    }


def test_rdma_without_an_address_is_reported() -> None:
    assert list(notices([machine(1, bare_rdma=("mlx5_3",))])) == [
        "192.0.2.1: RDMA device mlx5_3 has no IPv4 address on its interface and was left out; "
        "InfiniBand without IPoIB goes under `hcas` by hand"
    ]


def test_hcas_of_the_file_and_their_fabric_stay() -> None:
    observed = [machine(1, bare_rdma=("mlx5_3",)), machine(2)]
    filed = build("pair", observed).model_dump(mode="json", exclude_none=True)
    filed["rails"]["ib0"] = {"infiniband": True}
    name = next(iter(filed["nodes"]))
    filed["nodes"][name]["hcas"] = [{"rdma": "mlx5_3", "rail": "ib0"}]
    existing = Cluster.model_validate(filed)
    assert build("pair", observed, existing=existing) == existing
    assert not [notice for notice in notices(observed, existing) if "mlx5_3" in notice]


def test_lldp_gives_the_switch_and_its_ports() -> None:
    nexus = Neighbour(
        system="leaf1.lab", system_description="Cisco NX-OS", port="Ethernet1/1", addresses=("192.0.2.9",)
    )
    other = Neighbour(system="sonic", system_description="SONiC", port="Ethernet0")
    machine_seen = machine(1, *pair()[0].ports, neighbours={"ens2": (nexus,), "ens2d1": (other,)})
    cluster = build("lab", [machine_seen, pair()[1]])
    assert list(cluster.switches) == ["leaf1"]
    assert cluster.switches["leaf1"].host == "192.0.2.9"
    assert [(p.name, p.node, p.netdev) for p in cluster.switches["leaf1"].ports] == [("Ethernet1/1", "gpu1", "ens2")]


def cabled(*sockets: tuple[str, str] | None) -> list[Observation]:
    """Return machines whose ens2 have a Nexus and its port as LLDP neighbour, or none."""
    heard = [
        {"ens2": (Neighbour(system=socket[0], system_description="NX-OS", port=socket[1]),)} if socket else {}
        for socket in sockets
    ]
    return [replace(machine, neighbours=neighbours) for machine, neighbours in zip(pair(), heard, strict=True)]


def cables(cluster: Cluster) -> dict[str, str]:
    return {f"{name} {port.name}": port.node for name, switch in cluster.switches.items() for port in switch.ports}


ONE, TWO = ("leaf1", "Ethernet1/1"), ("leaf1", "Ethernet1/2")


@pytest.mark.parametrize(
    ("now", "written", "message"),
    [
        ((ONE, TWO), {"leaf1 Ethernet1/1": "gpu1", "leaf1 Ethernet1/2": "gpu2"}, []),
        ((None, None), {"leaf1 Ethernet1/1": "gpu1", "leaf1 Ethernet1/2": "gpu2"}, []),
        ((("LEAF1.lab", "Eth1/1"), TWO), {"leaf1 Ethernet1/1": "gpu1", "leaf1 Ethernet1/2": "gpu2"}, []),
        (
            (("leaf1", "Ethernet1/7"), TWO),
            {"leaf1 Ethernet1/2": "gpu2", "leaf1 Ethernet1/7": "gpu1"},
            ["remove switches.leaf1.ports[Ethernet1/1]", "add switches.leaf1.ports[Ethernet1/7]"],
        ),
        (
            (("leaf2", "Ethernet1/1"), TWO),
            {"leaf1 Ethernet1/2": "gpu2", "leaf2 Ethernet1/1": "gpu1"},
            ["remove switches.leaf1.ports[Ethernet1/1]", "add switches.leaf2"],
        ),
        (
            (TWO, ONE),
            {"leaf1 Ethernet1/1": "gpu2", "leaf1 Ethernet1/2": "gpu1"},
            ["set switches.leaf1.ports[Ethernet1/1].node", "set switches.leaf1.ports[Ethernet1/2].node"],
        ),
        (
            (TWO, None),
            {"leaf1 Ethernet1/2": "gpu1"},
            ["remove switches.leaf1.ports[Ethernet1/1]", "set switches.leaf1.ports[Ethernet1/2].node"],
        ),
    ],
)
def test_a_cable_that_was_moved_is_shown_and_written(
    now: tuple[tuple[str, str] | None, ...], written: dict[str, str], message: list[str]
) -> None:
    text = clusterfile.dumps(build("lab", cabled(ONE, TWO)))
    existing = clusterfile.loads(text, name="x.yaml")
    after = build("lab", cabled(*now), existing=existing)
    assert [f"{change.action} {change.subject}" for change in clusterfile.difference(existing, after)] == message
    assert cables(clusterfile.loads(clusterfile.rewrite(text, after), name="x.yaml")) == written


def test_a_port_of_a_switch_that_two_hear_stays_with_the_first() -> None:
    both = cabled(ONE, ONE)
    first = build("lab", both)
    assert cables(first) == {"leaf1 Ethernet1/1": "gpu1"}
    assert build("lab", both, existing=first) == first


def test_a_switch_that_was_asked_for_is_there_without_lldp() -> None:
    assert build("lab", pair(), switches=["192.0.2.9"]).switches["192.0.2.9"].ports == ()


def test_an_existing_file_keeps_its_names_and_what_machines_cannot_know() -> None:
    text = clusterfile.dumps(build("lab", pair())).replace("gpu1:", "alice:").replace("rail0", "blue")
    existing = clusterfile.loads(text + "training: {rendezvous_port: 1234}\n", name="x.yaml")
    moved = [pair()[0], machine(2, port("ens2", "10.1.0.9/24", "rocep130s0", speed_gbps=40.0))]
    cluster = build("ignored", moved, existing=existing)
    assert cluster.name == "lab"
    assert "alice" in cluster.nodes
    assert cluster.training.rendezvous_port == 1234
    changes = {change.subject: (change.before, change.after) for change in clusterfile.difference(existing, cluster)}
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


def loaded(cluster: Cluster) -> Cluster:
    return clusterfile.loads(clusterfile.dumps(cluster), name="x.yaml")


def test_another_machine_with_a_known_hostname_gets_a_number() -> None:
    existing = build("lab", pair())
    stranger = machine(9, port("ens2", "10.1.0.9/24", "mlx5_0"), hostname="gpu1")
    cluster = loaded(build("lab", [stranger], existing=existing))
    assert {name: node.host for name, node in cluster.nodes.items()} == {
        "gpu1": "192.0.2.1",
        "gpu2": "192.0.2.2",
        "gpu1-2": "192.0.2.9",
    }
    assert cluster.nodes["gpu1"] == existing.nodes["gpu1"]


@pytest.mark.parametrize(
    ("login", "name"), [(Login(port=2222), "old"), (Login(), "gpu1"), (Login(port=2222, jump="door"), "gpu1")]
)
def test_the_file_knows_a_machine_by_host_port_and_jump(login: Login, name: str) -> None:
    text = (
        "name: x\nlogin: {port: 2222}\nnodes: {old: {host: 192.0.2.1}, other: {host: 192.0.2.1, login: {port: 23}}}\n"
    )
    existing = clusterfile.loads(text, name="x.yaml")
    cluster = build("x", [machine(1, login=login)], existing=existing)
    assert set(cluster.nodes) == {"old", "other", name}


def test_the_common_login_of_the_machines_counts_too() -> None:
    existing = clusterfile.loads("name: x\nnodes: {old: {host: 192.0.2.1, login: {port: 2222}}}\n", name="x.yaml")
    assert list(build("x", [machine(1, common_login=Login(port=2222))], existing=existing).nodes) == ["old"]


def test_what_could_not_be_read_stays_as_the_file_says() -> None:
    existing = build("lab", [replace(node, gpus=(Gpu(name="H200"),)) for node in pair()])
    blind = machine(1, unknown={PORTS: "no ip", RDMA: "no rdma", GPUS: "no smi"})
    assert build("lab", [blind, pair()[1]], existing=existing).nodes["gpu1"] == existing.nodes["gpu1"]
    messages = list(notices([blind], existing))
    assert len(messages) == 3
    for part, reason in blind.unknown.items():
        assert any(text.startswith("192.0.2.1: ") and part in text and reason in text for text in messages)
    assert all("left out" in text for text in notices([blind]))


def test_ports_keep_the_rdma_of_the_file_where_it_could_not_be_read() -> None:
    existing = build("lab", pair())
    blind = [
        replace(node, ports=tuple(replace(p, rdma=None, rdma_port=1) for p in node.ports), unknown={RDMA: "no rdma"})
        for node in pair()
    ]
    assert build("lab", blind, existing=existing) == existing


def test_a_dead_peer_takes_no_rail_from_the_living() -> None:
    desktops = [machine(n, port("enp3s0", f"192.168.1.{n}/24")) for n in (1, 2)]
    existing = build("home", desktops)
    assert build("home", desktops[:1], existing=existing) == existing


def test_rdma_that_went_away_makes_no_rail_of_the_office_network() -> None:
    existing = build("lab", pair())
    plain = [replace(node, ports=tuple(replace(p, rdma=None, rdma_port=1) for p in node.ports)) for node in pair()]
    cluster = build("lab", plain, existing=existing)
    assert cluster.rails == existing.rails
    assert [p.rdma for _, p in cluster.ports()] == [None] * 4


BY_HAND = """
name: hand
rails:
  six: {subnet: "fd00:1::/64"}
  wide: {subnet: 10.4.0.0/16}
  cable: {point_to_point: true}
nodes:
  gpu2:
    host: 192.0.2.2
    ports:
      - {netdev: c0, rdma: mlx5_9, rail: cable, address: 10.5.0.2}
  gpu1:
    host: 192.0.2.1
    ports:
      - {netdev: z0, rail: six, address: "fd00:1::1"}
      - {netdev: c0, rdma: mlx5_2, rail: cable, address: 10.5.0.1}
      - {netdev: a0, rdma: mlx5_3, rail: wide, address: 10.4.0.1}
"""


def by_hand(**more: object) -> Observation:
    ports = (
        port("z0", "172.16.0.1/24", "mlx5_1"),
        port("c0", "10.5.0.1/24", "mlx5_2"),
        port("a0", "172.17.0.1/24", "mlx5_3"),
    )
    addresses = {
        "z0": (ports[0].interface, IPv6Interface("fd00:1::1/64")),
        "c0": (ports[1].interface,),
        "a0": (ports[2].interface, IPv4Interface("10.4.0.1/24")),
    }
    return machine(1, *ports, **{"addresses": addresses, **more})


def test_ports_that_cannot_be_placed_stay_where_the_file_has_them() -> None:
    existing = clusterfile.loads(BY_HAND, name="x.yaml")
    assert build("hand", [by_hand()], existing=existing) == existing


def test_a_port_goes_when_its_interface_or_address_does() -> None:
    existing = clusterfile.loads(BY_HAND, name="x.yaml")
    here = machine(1, port("c0", "10.5.0.77/24", "mlx5_2"), addresses={"z0": (), "c0": ()})
    cluster = loaded(build("hand", [here], existing=existing))
    assert [(p.netdev, p.rail, str(p.address)) for p in cluster.nodes["gpu1"].ports] == [("c0", "cable", "10.5.0.77")]


def test_a_cable_without_a_subnet_keeps_both_ends() -> None:
    existing = clusterfile.loads(BY_HAND, name="x.yaml")
    bare = machine(1)
    assert [p.netdev for p in loaded(build("x", [bare], existing=existing)).nodes["gpu1"].ports] == ["c0"]
    assert any("c0 is gone" in text for text in notices([bare], existing))


def test_a_lost_end_of_a_cable_with_a_switch_port_still_gives_a_file_that_loads() -> None:
    nexus = Neighbour(system="leaf", system_description="NX-OS", port="Ethernet1/1")
    existing = build("lab", [replace(pair()[0], neighbours={"ens2d1": (nexus,)}), pair()[1]])
    assert existing.switches["leaf"].ports
    cluster = loaded(build("lab", [machine(1, *pair()[0].ports[:2])], existing=existing))
    assert not cluster.rails["rail1"].point_to_point
    assert cluster.switches["leaf"].ports == ()


def test_a_known_machine_under_another_host_does_not_take_its_addresses() -> None:
    existing = build("lab", pair())
    again = replace(pair()[0], host="gpu1.lab")
    cluster = loaded(build("lab", [again], existing=existing))
    assert cluster.nodes["gpu1-2"].ports == ()
    assert any("same machine twice" in notice for notice in notices([again], existing))


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("_vm", "vm"),
        ("-vm", "vm"),
        ("(none)", "none"),
        ("ü", "node1"),
        ("", "node1"),
        ("v" * 70, "v" * 64),
        ("null", "null"),
        ("12", "12"),
    ],
)
def test_any_hostname_gives_a_name(hostname: str, name: str) -> None:
    twins = [machine(n, hostname=hostname) for n in (1, 2)]
    first, second = loaded(build("x", twins)).nodes
    assert first == name
    assert second not in ("", first)
    assert len(second) <= 64


def test_long_names_get_their_number_within_the_length() -> None:
    assert free_name("v" * 70, {"v" * 64}) == "v" * 62 + "-2"


@pytest.mark.parametrize(
    ("system", "addresses", "switches"),
    [
        ("", (), {}),
        ("ü", ("192.0.2.9",), {}),
        ("_leaf 1.lab", ("bad host!", "192.0.2.9"), {"leaf-1": "192.0.2.9"}),
        ("-" + "s" * 80, (), {"s" * 64: "s" * 64}),
        ("leaf\x07", (), {"leaf": "leaf"}),
    ],
)
def test_odd_system_names(system: str, addresses: tuple[str, ...], switches: dict[str, str]) -> None:
    odd = Neighbour(system=system, system_description="NX-OS", port="Eth1/1", addresses=addresses)
    cluster = loaded(build("lab", [replace(node, neighbours={"ens2": (odd,)}) for node in pair()]))
    assert {name: switch.host for name, switch in cluster.switches.items()} == switches


def facts_of(**changes: Any) -> DeviceFacts:
    """Return the facts of a machine with one RDMA port, some of them changed or unknown."""
    link = ip_link.Link(name="ens2", mtu=9000, state="UP", flags=())
    facts: dict[str, Any] = {
        "hostname": hostname.Hostname(name="gpu1"),
        "ip_link": ip_link.Links(links={"ens2": link}),
        "ip_addr": addresses_of("ens2"),
        "rdma_link": rdma_link.RdmaLinks(
            links={"mlx5_0/1": rdma_link.RdmaLink(device="mlx5_0", port=1, netdev="ens2")}
        ),
        "infiniband": infiniband.RdmaDevices(devices={}),
        "gpu": gpu.Gpus(gpus=(), on_bus=()),
        "lldp": lldp.Neighbours(interfaces={}),
        **changes,
    }
    output = Output(device="a", key="", command="", stdout=b"", exit=0, sent=0.0, received=0.0)
    readings = {
        key: (value if isinstance(value, Unknown) else Known(facts=value, output=output),)
        for key, value in facts.items()
    }
    return DeviceFacts(device="a", readings=readings)


def addresses_of(netdev: str, address: str = "10.1.0.1") -> ip_addr.Addresses:
    entry = ip_addr.Address(address=address, prefix=24, scope="global")
    return ip_addr.Addresses(interfaces={netdev: (entry,)})


def observed(**changes: Any) -> Observation:
    return observe("192.0.2.1", Login(), facts_of(**changes))


NOT_READ = Unknown(reason="it timed out")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, set()),
        ({"ip_addr": NOT_READ}, {PORTS}),
        ({"ip_link": NOT_READ}, {PORTS}),
        ({"rdma_link": NOT_READ}, set()),
        ({"rdma_link": NOT_READ, "infiniband": NOT_READ}, {RDMA}),
        ({"gpu": NOT_READ}, {GPUS}),
        ({"gpu": gpu.Gpus(gpus=(), on_bus=("0000:01:00.0",), problem="it timed out")}, {GPUS}),
        ({"gpu": gpu.Gpus(gpus=(), on_bus=(), problem="No devices were found")}, set()),
    ],
)
def test_a_sighting_says_what_was_not_read(changes: dict[str, Any], parts: set[str]) -> None:
    observation = observed(**changes)
    assert observation.unknown == dict.fromkeys(parts, "it timed out")
    assert observation.bare_rdma == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"rdma_link": rdma_link.RdmaLinks(links={"x": rdma_link.RdmaLink(device="-b\x1bd", port=1, netdev="ens2")})},
        {"rdma_link": rdma_link.RdmaLinks(links={"x": rdma_link.RdmaLink(device="mlx5_0", port=0, netdev="ens2")})},
        {"ip_addr": addresses_of("ens2", "10.1.0.0")},
    ],
)
def test_a_port_that_the_file_would_refuse_is_left_out(changes: dict[str, Any]) -> None:
    observation = observed(**changes)
    assert observation.ports == ()
    (message,) = notices([observation])
    assert "ens2" in message
    assert "left out" in message
    assert message.isprintable()


def test_an_interface_with_an_odd_name_is_left_out() -> None:
    link = ip_link.Link(name="a:b", mtu=9000, state="UP", flags=())
    observation = observed(ip_link=ip_link.Links(links={"a:b": link}), ip_addr=addresses_of("a:b"))
    assert observation.ports == ()
    assert any("a:b" in notice for notice in notices([observation]))


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"port": "Ethernet1/1", "port_type": "ifname", "port_description": "to gpu1"}, "Ethernet1/1"),
        ({"port": "00:11:22:33:44:55", "port_type": "mac", "port_description": "Ethernet1/1"}, "Ethernet1/1"),
        ({"port": "00:11:22:33:44:55", "port_type": "mac"}, "00:11:22:33:44:55"),
    ],
)
def test_a_port_of_a_switch_goes_by_its_name(fields: dict[str, str], name: str) -> None:
    heard = lldp.Neighbours(interfaces={"ens2": (Neighbour(system="leaf", **fields),)})  # type: ignore[arg-type]
    assert [neighbour.port_name for neighbour in observed(lldp=heard).neighbours["ens2"]] == [name]


@pytest.mark.parametrize("port_id", ["", "Eth\x001/1", "a\nb", "Ethernet1/1 ; reload", "x" * 65])
def test_an_odd_lldp_port_is_left_out(port_id: str) -> None:
    heard = lldp.Neighbours(interfaces={"ens2": (Neighbour(system="leaf", port=port_id),)})
    observation = observed(lldp=heard)
    assert observation.neighbours == {}
    assert any("LLDP" in notice and notice.isprintable() for notice in notices([observation]))
