"""What must hold for any machines, however odd: the file loads, and is the same if nothing changed."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.machines import sites

from railbed.check.book import CHECK_BOOK
from railbed.check.rules import mtu
from railbed.clusterfile import difference, dumps, loads, rewrite
from railbed.discover.build import build, notices
from railbed.discover.machine import machines_of
from railbed.discover.observation import Observation, observe
from railbed.discover.rails import choose
from railbed.model.cluster import Cluster, Login
from railbed.model.reading import DeviceFacts
from railbed.rules.engine import judge
from railbed.rules.site import Site as CheckedSite

SETTINGS = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FEWER = settings(SETTINGS, max_examples=10)
Site = Mapping[str, DeviceFacts]
BY_HAND = """
name: x
rails:
  cable: {point_to_point: true}
  six: {subnet: "fd00:1::/64"}
  wide: {subnet: 10.0.0.0/8}
nodes:
  a:
    host: 192.0.2.1
    ports:
      - {netdev: e2, rail: six, address: "fd00:1::1", rdma: mlx5_0}
      - {netdev: e1, rail: cable, address: 10.1.0.1, rdma: mlx5_1}
  b:
    host: 192.0.2.2
    ports:
      - {netdev: e1, rail: cable, address: 10.1.0.2}
      - {netdev: e2, rail: wide, address: 10.1.0.4, rdma: mlx5_0, rdma_port: 2}
switches:
  nexus: {host: 192.0.2.8, ports: [{name: Eth1/1, node: a, netdev: e1}, {name: Eth1/2, node: b, netdev: e2}]}
"""


def observed(site: Site, existing: Cluster | None = None) -> list[Observation]:
    """Return the machines as the file reaches them, or as hosts on the command line."""
    if existing is None:
        return [observe(host, Login(user="ann"), facts) for host, facts in site.items()]
    return [
        observe(node.host, node.login, site[node.host], common_login=existing.login)
        for node in existing.nodes.values()
        if node.host in site
    ]


def read(text: str) -> Cluster:
    return loads(text, name="x.yaml")


def assert_says_the_same(file: Cluster, site: Site) -> None:
    for observations in (observed(site, file), observed(site)):
        assert difference(file, build("x", observations, existing=file)) == []


@SETTINGS
@given(sites())
def test_unchanged_machines_make_no_difference(site: Site) -> None:
    cluster = build("x", observed(site))
    text = dumps(cluster)
    file = read(text)
    assert file == cluster
    assert_says_the_same(file, site)
    assert rewrite(text, build("x", observed(site), existing=file)) == text


@FEWER
@given(
    st.one_of(st.just(BY_HAND), sites().map(lambda site: dumps(build("x", observed(site))))),
    st.lists(sites(), min_size=1, max_size=3),
)
def test_a_file_with_the_changes_made_makes_no_difference(text: str, later: list[Site]) -> None:
    for site in later:
        cluster = build("x", observed(site), existing=read(text))
        text = rewrite(text, cluster)
        file = read(text)
        assert file == cluster
        assert_says_the_same(file, site)


@SETTINGS
@given(sites(min_size=2).flatmap(lambda site: st.tuples(st.just(site), st.permutations(list(site)))))
def test_the_order_of_the_hosts_changes_nothing_but_order(given_in: tuple[Site, list[str]]) -> None:
    site, order = given_in
    shuffled = {host: site[host] for host in order}
    built, shuffled_built = build("x", observed(site)), build("x", observed(shuffled))
    assert [node.host for node in shuffled_built.nodes.values()] == order
    assert built == shuffled_built
    assert list(notices(observed(site))) == list(notices(observed(shuffled)))


@FEWER
@given(sites(min_size=2))
def test_machines_that_share_a_network_share_a_rail(site: Site) -> None:
    """Leaving out the management network cuts no machine off."""
    choice = choose(machines_of(observed(site), None), None)
    for seats in choice.management.values():
        names = {name for name, _ in seats}
        for first in names:
            for second in names - {first}:
                assert any({first, second} <= {name for name, _ in group} for group in choice.rails.values())


@FEWER
@given(sites(min_size=2))
def test_a_new_file_never_asks_for_another_mtu_where_a_rail_agrees(site: Site) -> None:
    """A fresh file passes the rule of the MTU on every rail whose ports agree, unless RDMA runs below the policy's."""
    observations = observed(site)
    cluster = build("x", observations)
    seen_ports = [port for observation in observations for port in observation.ports]
    facts = {name: site[node.host] for name, node in cluster.nodes.items()}
    rails = {f"{node}/{port.netdev}": port.rail for node, port in cluster.ports()}
    for finding in judge(CHECK_BOOK, CheckedSite(cluster, facts), [mtu.RULE]):
        rail = rails[finding.subject]
        subnet = cluster.rails[rail].subnet
        assert subnet is not None
        sizes = {port.mtu for port in seen_ports if port.interface.ip in subnet}
        if len(sizes) == 1 and 1280 <= max(sizes) <= 65535:
            below = any(port.rdma for port in seen_ports) and max(sizes) < cluster.mtu_of(rail)
            assert finding.verdict == "ok" or below
