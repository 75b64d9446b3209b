"""RDMA packets are as large as the rail's MTU allows.

What
----
`ibv_devinfo` shows as `active_mtu` the largest RDMA packet that fits the rail's MTU: 4096 from about 4200 bytes on.

Why
---
RDMA packets have 256 to 4096 bytes of payload, and the driver uses the largest size that fits the interface. An
interface at 1500 gives 1024: four times as many packets for every gradient bucket, and less bandwidth if the packet
rate is the limit. The two ends of a connection use the smaller of both, so one node slows the others.

Fix
---
Set the MTU of the interface (`ip link set dev IF mtu 9000`) and keep it in netplan; RDMA follows without a restart, but
existing connections keep their size.

Source
------
Linux kernel, include/rdma/ib_addr.h (iboe_get_mtu: 96 bytes of headers at most); perftest's `-m` option.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import no_rdma, not_there
from railbed.model.fix import mtu_command, set_mtu
from railbed.probes import ibv_devinfo, ip_link
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

SIZES = (4096, 2048, 1024, 512, 256)
HEADERS = 96
"""IP, UDP, the longest RDMA headers and the checksum, as the kernel calculates."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the MTU in use with the largest that the rail's MTU allows."""
    fitting = next(size for size in SIZES if size + HEADERS <= port.mtu)
    device = port.read(ibv_devinfo.PROBE).devices.get(port.port.rdma or "")
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    if device is None or own is None:
        yield not_there(port, f"active_mtu {fitting}")
        return
    wanted = min(fitting, own.max_mtu or fitting)
    expected = f"active_mtu {wanted}"
    if device.transport == "iWARP":
        yield skip("iWARP runs over TCP: it has no RDMA packet size", expected=expected)
    elif own.link_layer == "InfiniBand":
        yield skip("InfiniBand link: the subnet manager sets the MTU", expected=expected)
    elif own.active_mtu is None:
        yield unknown(expected=expected, observed="ibv_devinfo gives no active_mtu")
    elif own.active_mtu < wanted:
        yield _too_small(port, expected, own.active_mtu)
    else:
        yield ok(expected=expected, observed=f"active_mtu {own.active_mtu}")


def _too_small(port: PortView, expected: str, active_mtu: int) -> Judgement:
    """Raise the interface's MTU; one that is large enough already is not touched."""
    netdev, observed = port.port.netdev, f"active_mtu {active_mtu}"
    links = port.node.try_read(ip_link.PROBE)
    link = links.links.get(netdev) if links else None
    if link is None:
        return fail(expected=expected, observed=observed, remedy=mtu_command(netdev, port.mtu))
    if link.mtu >= port.mtu:
        remedy = f"{netdev} has MTU {link.mtu} already: look for messages of the card's driver with `dmesg`"
        return fail(expected=expected, observed=observed, remedy=remedy)
    return fail(expected=expected, observed=observed, fix=set_mtu(port.node.name, [(netdev, link.mtu, port.mtu)]))


RULE = Rule(
    name="rdma_mtu",
    title="RDMA packet size as the MTU allows",
    scope="port",
    needs=(ibv_devinfo.PROBE, ip_link.PROBE),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
    rank=110,
)
