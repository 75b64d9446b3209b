"""The RDMA device named in the cluster file exists, on the interface named there.

What
----
`rdma link` (or sysfs) shows the device and port that the cluster file names, and its interface is the port's `netdev`.

Why
---
NCCL opens the device by name (`NCCL_IB_HCA`). If it is missing, training falls back to TCP without an error and runs
several times slower; if it is the device of another interface, gradients leave on the wrong rail and two rails share
one link. Names change with udev rules and kernels (`mlx5_0`, `rocep3s0`), so they must be read, never guessed.

Fix
---
Write the device that `rdma link` shows for the interface into the cluster file as `rdma:`. If it shows none, load the
driver (`modprobe mlx5_ib`, `rdma_rxe` for Soft-RoCE) and see `dmesg`.

Source
------
iproute2, rdma-link(8); rdma-core, udev rules `60-rdma-persistent-naming.rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railbed.check.shared.port import no_rdma, rdma_device, rdma_name
from railbed.probes import infiniband, rdma_link
from railbed.probes.infiniband import RdmaDevice
from railbed.rules.judgement import Judgement, fail, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the device's interface with the cluster file."""
    name, netdev = rdma_name(port), port.port.netdev
    netdevs = _netdevs(port)
    owner = next((device for device, own in netdevs.items() if own == netdev), None)
    if port.port.is_hca:
        yield _judge_hca(name, netdevs)
        return
    expected = f"{name} on {netdev}"
    if name not in netdevs:
        there = f"{netdev} has {owner}" if owner else f"{netdev} has no RDMA device"
        yield fail(expected=expected, observed=f"no {name}; {there}", remedy=_remedy(owner), evidence=_listing(netdevs))
    elif netdevs[name] == netdev or netdev in _gid_netdevs(rdma_device(port), str(port.port.rdma_port)):
        yield ok(expected=expected, observed=expected)
    elif netdevs[name] is None:
        yield unknown(expected=expected, observed=f"{name} names no interface", evidence=_listing(netdevs))
    else:
        there = f"; {netdev} has {owner}" if owner else ""
        yield fail(
            expected=expected,
            observed=f"{name} is on {netdevs[name]}{there}",
            remedy=_remedy(owner),
            evidence=_listing(netdevs),
        )


def _judge_hca(name: str, netdevs: Mapping[str, str | None]) -> Judgement:
    expected = f"{name}, without an interface"
    if name not in netdevs:
        return fail(expected=expected, observed=f"no {name}", evidence=_listing(netdevs))
    if netdev := netdevs[name]:
        remedy = f"write it under `ports` of the cluster file, with `netdev: {netdev}` and its address"
        return warn(expected=expected, observed=f"{name} has the interface {netdev}", remedy=remedy)
    return ok(expected=expected, observed=name)


def _netdevs(port: PortView) -> Mapping[str, str | None]:
    """Return the interface of every RDMA port, from netlink, else from sysfs."""
    links = port.node.try_read(rdma_link.PROBE)
    devices = port.node.try_read(infiniband.PROBE)
    if links is not None:
        return {name: link.netdev for name, link in links.links.items()}
    if devices is not None:
        return {
            f"{device.name}/{number}": next(iter(_gid_netdevs(device, number)), device.parent)
            for device in devices.devices.values()
            for number in device.ports
        }
    return {name: link.netdev for name, link in port.read(rdma_link.PROBE).links.items()}


def _gid_netdevs(device: RdmaDevice | None, number: str) -> list[str]:
    """Return the interfaces in the GID table, which include VLANs."""
    port = device.ports.get(number) if device else None
    return [gid.netdev for gid in port.gids if gid.netdev] if port else []


def _remedy(owner: str | None) -> str:
    if owner is None:
        return ""
    device, _, number = owner.partition("/")
    port = f", rdma_port: {number}" if number != "1" else ""
    return f"write `rdma: {device}{port}` at this port of the cluster file"


def _listing(netdevs: Mapping[str, str | None]) -> str:
    return "\n".join(f"{name} {netdev or '-'}" for name, netdev in netdevs.items()) or "no RDMA devices"


RULE = Rule(
    name="rdma_device",
    title="RDMA device on the right interface",
    scope="RDMA port",
    needs=(rdma_link.PROBE, infiniband.PROBE),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
    at_restart=True,
)
