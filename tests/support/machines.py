"""Hypothesis strategies for the facts of odd machines: few names and addresses, so that they clash."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import strategies as st

from railbed.model.cabling import Neighbour
from railbed.model.reading import DeviceFacts, Known, Output, Unknown
from railbed.parsing.gids import Gid
from railbed.probes import ethtool, gpu, hostname, infiniband, ip_addr, ip_link, lldp, rdma_link, ssh_session

HOSTS = ["192.0.2.1", "192.0.2.2", "192.0.2.10", "gpu1", "fd00::1"]
HOSTNAMES = ["ubuntu", "ubuntu-2", "gpu1", "Ubuntu.lab", "(none)", ""]
NETDEVS = ["e1", "e2", "e10", "e10.100"]
OUTPUT = Output(device="a", key="", command="", stdout=b"", exit=0, sent=0.0, received=0.0)

# Everything is drawn from whole lists: one draw each keeps hypothesis fast.
ADDRESSES = [
    ip_addr.Address(address=address, prefix=prefix, scope=scope)
    for address, prefix, scope in [
        *product(
            ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.127", "10.2.0.1", "10.2.0.2"],
            [16, 24, 24, 24, 25, 29, 30, 31, 32],
            ["global"],
        ),
        *product(["fd00:1::1", "fd00:1::2"], [64, 128], ["global"]),
        ("10.1.0.2", 24, "link"),
        ("fe80::1", 64, "link"),
    ]
]
LINKS = [
    ip_link.Link(name="e1", mtu=mtu, state="UP", flags=(), kind=kind)
    for mtu, kind in product([1500, 9000, 65536, 68], [None, None, None, "vlan", "bridge"])
]
SPEEDS = [ethtool.EthernetSettings(speed_mbps=speed) for speed in (None, -1, 10_000, 40_000)]
RDMA_LINKS = [
    rdma_link.RdmaLink(device=device, port=port, netdev=netdev)
    for device, port, netdev in product(["mlx5_0", "mlx5_1"], [1, 2], [None, *NETDEVS])
]
GPUS = [
    gpu.InstalledGpu(index=0, name=name, memory_bytes=size)
    for name, size in product(["V100", "H200"], [None, 1, 2**34])
]
NEIGHBOURS = [
    Neighbour(system=system, system_description=description, port=port, addresses=addresses)
    for system, description, port, addresses in product(
        [None, "leaf1", "leaf2.lab", "LEAF1", ""],
        ["Cisco NX-OS", "Cisco NX-OS", "SONiC"],
        ["Ethernet1/1", "Eth1/1", "Ethernet1/2", "00:11:22:33:44:55"],
        [(), ("192.0.2.8",), ("192.0.2.9", "192.0.2.8"), ("no host!", "leaf1")],
    )
]
SESSIONS = [
    ssh_session.SshSession(address=address, netdev=netdev)
    for address, netdev in [
        (None, None),
        *product(["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.2.0.1", "10.2.0.2", "fd00:1::1", "192.0.2.1"], [None]),
        *product(["fe80::1"], NETDEVS),
    ]
]
SILENT = [
    (),
    (),
    (),
    ("ssh_session",),
    ("hostname",),
    ("ip_addr",),
    ("ip_link",),
    ("rdma_link",),
    ("rdma_link", "infiniband"),
    ("gpu",),
]


def by_netdev(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict.fromkeys(NETDEVS, values))


def some(values: list[Any], most: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), max_size=most).map(tuple)


def rdma_links(links: tuple[rdma_link.RdmaLink, ...]) -> rdma_link.RdmaLinks:
    return rdma_link.RdmaLinks(links={f"{link.device}/{link.port}": link for link in links})


def rdma_tree(links: tuple[rdma_link.RdmaLink, ...]) -> infiniband.RdmaDevices:
    """Return the devices of RDMA links as /sys shows them: there a port may have several interfaces."""
    devices: dict[str, infiniband.RdmaDevice] = {}
    for device in sorted({link.device for link in links}):
        ports: dict[str, infiniband.RdmaPort] = {}
        for number in sorted({link.port for link in links if link.device == device}):
            netdevs = [link.netdev for link in links if (link.device, link.port) == (device, number)]
            gids = tuple(Gid(index=index, gid="fe80::1", netdev=netdev) for index, netdev in enumerate(netdevs))
            ports[str(number)] = infiniband.RdmaPort(gids=gids)
        devices[device] = infiniband.RdmaDevice(name=device, ports=ports)
    return infiniband.RdmaDevices(devices=devices)


READINGS: dict[str, st.SearchStrategy[Any]] = {
    "hostname": st.builds(hostname.Hostname, name=st.sampled_from(HOSTNAMES)),
    "ip_addr": st.builds(ip_addr.Addresses, interfaces=by_netdev(some(ADDRESSES))),
    "ip_link": st.builds(ip_link.Links, links=by_netdev(st.sampled_from(LINKS))),
    "rdma_link": some(RDMA_LINKS, 4).map(rdma_links),
    "infiniband": some(RDMA_LINKS, 4).map(rdma_tree),
    "ethtool": st.builds(ethtool.Ethernet, interfaces=by_netdev(st.sampled_from(SPEEDS))),
    "gpu": st.builds(gpu.Gpus, gpus=some(GPUS), on_bus=st.sampled_from([None, (), ("0000:01:00.0",)])),
    "ssh_session": st.sampled_from(SESSIONS),
    "lldp": st.builds(lldp.Neighbours, interfaces=by_netdev(some(NEIGHBOURS))),
}


@st.composite
def machines(draw: st.DrawFn) -> DeviceFacts:
    """Return the facts of one machine; some probes get no answer."""
    silent = draw(st.sampled_from(SILENT))
    readings: dict[str, tuple[Known[object] | Unknown, ...]] = {
        probe: (Unknown(reason="timed out") if probe in silent else Known(facts=draw(facts), output=OUTPUT),)
        for probe, facts in READINGS.items()
    }
    return DeviceFacts(device="a", readings=readings)


def sites(min_size: int = 1) -> st.SearchStrategy[dict[str, DeviceFacts]]:
    """Return machines by the host they answer at."""
    return st.dictionaries(st.sampled_from(HOSTS), machines(), min_size=min_size, max_size=4)
