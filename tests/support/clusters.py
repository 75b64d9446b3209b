"""Hypothesis strategies for clusters as they could be in a file: any values, with consistent parts."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from hypothesis import strategies as st

from railbed.model.cluster import Cluster, Gpu, Login, Node, Policy, Port, Rail, Secret, Switch, SwitchPort, Training

NAMES = st.one_of(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,12}", fullmatch=True),
    st.sampled_from(["on", "no", "null", "true", "1", "0x1", "1e3", "1.5", "n", "2024-01-01", "a.b-c_d"]),
)
TEXTS = st.one_of(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters=[chr(n) for n in [*range(32), 127]]), min_size=1
    ),
    st.sampled_from(
        ["~", "~/x", "- a", "a: b", "# c", " a ", "{", "[", "*a", "&a", "!a", "null", "5", "'", '"', "\\", "…"]
    ),
)
NETDEVS = st.from_regex(r"[a-z][a-z0-9@._\"'{}#,-]{0,9}", fullmatch=True)
SWITCH_PORTS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 /:._-]{0,20}", fullmatch=True)
PORTS = st.integers(1, 65535)
POSITIVE = st.one_of(
    st.integers(1, 800).map(float), st.floats(min_value=1e-300, allow_infinity=False, exclude_min=True)
)
PREFIXES = [IPv4Network("10.1.0.0/16"), IPv4Network("192.168.250.0/24"), IPv6Network("fd00:1::/64")]


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


PROGRAMS = st.one_of(
    TEXTS.filter(lambda text: "/" not in text and not text.startswith("-")), TEXTS.map("/opt/{}".format)
)
SECRETS = st.one_of(
    st.builds(Secret, env=st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)),
    st.builds(Secret, keyring=TEXTS),
)
LOGINS = st.builds(
    Login,
    user=optional(TEXTS),
    port=optional(PORTS),
    jump=optional(TEXTS),
    key=optional(TEXTS),
    known_hosts=optional(TEXTS),
    password=optional(SECRETS),
    passphrase=optional(SECRETS),
    slurm_job=optional(st.integers(1, 10**9)),
    slurm_options=optional(st.just(("--mem-bind=none", "--container-image=docker://a b#c"))),
)
POLICIES = st.builds(
    Policy,
    pfc=st.booleans(),
    ecn=st.booleans(),
    priority=st.integers(0, 7),
    dscp=st.integers(0, 63),
    cnp_dscp=st.integers(0, 63),
    host_mtu=st.integers(1280, 9600),
)
TRAININGS = st.builds(
    Training,
    rendezvous_port=optional(PORTS),
    min_disk_gb=st.floats(0, allow_infinity=False, allow_nan=False),
    workdir=TEXTS,
    python=PROGRAMS,
    launcher=st.one_of(st.just(()), st.tuples(PROGRAMS), st.tuples(PROGRAMS, TEXTS)),
)
GPUS = st.lists(st.builds(Gpu, name=TEXTS, memory_gb=optional(POSITIVE)), max_size=3).map(tuple)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    subnets = draw(st.dictionaries(NAMES, st.sampled_from(PREFIXES), max_size=3))
    rails = {
        name: Rail(subnet=subnet, speed=draw(optional(POSITIVE)), mtu=draw(optional(st.integers(1280, 65535))))
        for name, subnet in subnets.items()
    }
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    nodes = {name: draw(nodes_of(number, rails)) for number, name in enumerate(names)}
    return Cluster(
        name=draw(NAMES),
        login=draw(LOGINS),
        policy=draw(st.one_of(st.just(Policy()), POLICIES)),
        rails=rails,
        nodes=nodes,
        switches=draw(switches_of(nodes)),
        training=draw(st.one_of(st.just(Training()), TRAININGS)),
    )


@st.composite
def nodes_of(draw: st.DrawFn, number: int, rails: dict[str, Rail]) -> Node:
    netdevs = draw(st.lists(NETDEVS, max_size=3 if rails else 0, unique=True))
    ports = [draw(ports_of(netdev, number * 10 + place, rails)) for place, netdev in enumerate(netdevs, start=1)]
    return Node(
        host=f"10.0.0.{number}",
        login=draw(st.one_of(st.just(Login()), LOGINS)),
        ports=tuple(ports),
        gpus=draw(GPUS),
        python=draw(st.one_of(st.none(), PROGRAMS)),
    )


@st.composite
def ports_of(draw: st.DrawFn, netdev: str, place: int, rails: dict[str, Rail]) -> Port:
    rail = draw(st.sampled_from(sorted(rails)))
    subnet = rails[rail].subnet
    assert subnet is not None
    address: IPv4Address | IPv6Address = subnet[place]
    device = draw(optional(st.just(f"mlx5_{place}")))
    return Port(netdev=netdev, rail=rail, address=address, rdma=device, rdma_port=draw(st.integers(1, 2)))


@st.composite
def switches_of(draw: st.DrawFn, nodes: dict[str, Node]) -> dict[str, Switch]:
    ends = [(name, port.netdev) for name, node in nodes.items() for port in node.ports]
    names = draw(st.lists(SWITCH_PORTS, min_size=len(ends), max_size=len(ends), unique=True))
    ports = tuple(
        SwitchPort(name=name, node=node, netdev=netdev)
        for name, (node, netdev) in zip(names, ends, strict=True)
        if draw(st.booleans())
    )
    switch = Switch(host="10.0.1.1", login=draw(LOGINS), ports=ports)
    return {"s1": switch} if draw(st.booleans()) else {}
