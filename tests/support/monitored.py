"""A cluster that has everything that can be monitored, and samples of all its series."""

from __future__ import annotations

from collections.abc import Iterator

from railbed.model.cluster import Cluster, Gpu, Node, Policy, Port, Rail, Switch, SwitchPort
from railbed.model.meters import METERS, MISSING, Sample, SeriesKey

RAILS = {"rail0": "10.1.0", "rail1": "10.2.0"}
OF_SWITCHES = ("switch_", "queue_", "ingress_", "watchdog_")


def monitored_cluster(nodes: int = 2, *, rdma: bool = True, name: str = "site.a", **policy: object) -> Cluster:
    """Return a cluster of two rails and one switch, with RDMA and GPUs."""
    names = [f"node{number}" for number in range(1, nodes + 1)]
    return Cluster(
        name=name,
        policy=Policy.model_validate(policy),
        rails={rail: Rail.model_validate({"subnet": f"{net}.0/24", "speed": 100}) for rail, net in RAILS.items()},
        nodes={
            node: Node(host=node, gpus=(Gpu(name="H100"),), ports=tuple(_ports(number, rdma=rdma)))
            for number, node in enumerate(names, 1)
        },
        switches={
            "nexus": Switch(
                host="nexus",
                ports=tuple(
                    SwitchPort(name=f"Ethernet1/{2 * index + rail + 1}", node=node, netdev=f"eth{rail}")
                    for index, node in enumerate(names)
                    for rail in range(len(RAILS))
                ),
            )
        },
    )


def _ports(number: int, *, rdma: bool) -> Iterator[Port]:
    for index, (rail, net) in enumerate(RAILS.items()):
        device = f"mlx5_{index}" if rdma else None
        address = f"{net}.{number}"
        yield Port.model_validate({"netdev": f"eth{index}", "rdma": device, "rail": rail, "address": address})


def layouts(cluster: Cluster) -> dict[str, tuple[SeriesKey, ...]]:
    """Return every series that devices of a cluster could have, by device."""
    nodes = {
        name: tuple(_series(name, [port.netdev for port in node.ports], of_switch=False))
        for name, node in cluster.nodes.items()
    }
    switches = {
        name: tuple(_series(name, [port.name for port in switch.ports], of_switch=True))
        for name, switch in cluster.switches.items()
    }
    return nodes | switches


def _series(device: str, ports: list[str], *, of_switch: bool) -> Iterator[SeriesKey]:
    parts = {"": ("",), "priority": ("0", "3"), "queue": ("0", "3"), "gpu": ("0",), "peer": ("10.1.0.9",)}
    for meter in METERS.values():
        if meter.of == "rank" or meter.name.startswith(OF_SWITCHES) is not of_switch:
            continue
        for port in ports if meter.per_port else [""]:
            for part in parts[meter.part]:
                yield SeriesKey(device, meter.name, port, part)


def sample(
    layout: tuple[SeriesKey, ...], values: dict[SeriesKey, int] | None = None, *, default: int = MISSING
) -> Sample:
    """Return a sample of a layout; series without a value have the default."""
    chosen = values or {}
    return Sample(layout[0].device, 0.0, layout, [chosen.get(series, default) for series in layout])
