"""The RDMA port has a RoCE v2 GID for its address.

What
----
The GID table of the port has an entry of type RoCE v2 for the address in the cluster file. `observed` names its index.
If a card of the rail has only RoCE v1 for its address, and all others of the rail have v1 as well, the rail uses v1 and
the rule warns: a rail is one subnet or one cable, on which v1 works.

Why
---
A RoCE v2 packet is UDP in IP: only IP has a DSCP for the lossless queue and an ECN field for congestion control, and
only IP is routed. RoCE v1 has neither: its frames can be lossless by the priority in a VLAN tag, or by global pause.
The two versions cannot talk to each other, and with a link-local GID training hangs across subnets.

Fix
---
Add the address to the interface (`ip addr add ADDRESS/PREFIX dev IF`): the kernel then adds the GID. Only v1 for
the address: the card does not support v2 (ConnectX-3 without Pro), or its driver or firmware has it off. No setting
adds it to the former: use it as it is on one subnet, or a card with v2 (ConnectX-3 Pro, ConnectX-4 and newer).

Source
------
Linux kernel documentation, ABI/stable/sysfs-class-infiniband (gid_attrs); linux-rdma/perftest issue 44.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from railbed.check.shared.card import CARD_PROBES, card_of
from railbed.check.shared.port import no_rdma, not_there, rdma_device
from railbed.parsing.gids import ROCE_V2, Gid, common_version, gid_index, of_address, types_of_address
from railbed.probes import ibv_devinfo, infiniband
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

WORKS_WITH_V1 = (
    "RDMA works with it on one cable or subnet, without DSCP, ECN and routing: for lossless frames use a VLAN "
    "priority, or global pause with `pfc: false` in the policy; a ConnectX-3 Pro, ConnectX-4 or newer card has RoCE v2"
)
NO_COMMON_VERSION = (
    "another card of {rail} has only RoCE v2, and the versions cannot talk to each other: turn v2 on here if the card "
    "has it, or use cards with a version in common"
)


def judge(port: PortView) -> Iterator[Judgement]:
    """Look for the entry by type and address."""
    expected = f"RoCE v2 GID for {port.port.address}"
    card = card_of(port)
    if card.infiniband_link:
        yield skip("InfiniBand link: no RoCE GIDs", expected=expected)
        return
    if card.family in ("siw", "iwarp"):
        yield skip("iWARP has no RoCE GIDs", expected=expected)
        return
    gids = _gids(port)
    if gids is None:
        yield not_there(port, expected)
    else:
        yield _judge_table(port, gids, expected)


def _judge_table(port: PortView, gids: Sequence[Gid], expected: str) -> Judgement:
    evidence = "\n".join(f"{gid.index} {gid.gid} {gid.type or '?'} {gid.netdev or ''}".rstrip() for gid in gids)
    index, old = (gid_index(gids, port.port.address, version) for version in (2, 1))
    uses_v1 = common_version(port.on_rail(_types)) == 1
    if index is not None:
        unused = f"; the rail uses RoCE v1, index {old}" if uses_v1 else ""
        return ok(expected=expected, observed=f"index {index}{unused}", evidence=evidence)
    ours = of_address(gids, port.port.address)
    if any(gid.type is None for gid in ours):
        return unknown(expected=expected, observed=f"index {ours[0].index}, of unknown type", evidence=evidence)
    if ours:
        observed = f"only RoCE v1, index {ours[0].index}"
        if uses_v1:
            return warn(expected=expected, observed=observed, remedy=WORKS_WITH_V1, evidence=evidence)
        remedy = NO_COMMON_VERSION.format(rail=port.port.rail)
        return fail(expected=expected, observed=observed, remedy=remedy, evidence=evidence)
    remedy = f"put {port.port.address} on {port.port.netdev}: ip addr add {_interface_address(port)}"
    return fail(expected=expected, observed=_what_is_there(gids), remedy=remedy, evidence=evidence)


def _types(port: PortView) -> frozenset[str] | None:
    gids = _gids(port)
    return types_of_address(gids, port.port.address) if gids else None


def _gids(port: PortView) -> Sequence[Gid] | None:
    """Return the GID table from sysfs, else from ibv_devinfo; None if there is no such port."""
    number = str(port.port.rdma_port)
    device = rdma_device(port)
    if device and number in device.ports:
        return device.ports[number].gids
    verbs = port.node.try_read(ibv_devinfo.PROBE)
    listed = verbs.devices.get(port.port.rdma or "") if verbs else None
    if listed and number in listed.ports and listed.ports[number].gids:
        return listed.ports[number].gids
    port.read(infiniband.PROBE)
    return None


def _what_is_there(gids: Sequence[Gid]) -> str:
    if not gids:
        return "no GIDs"
    if all(gid.address.is_link_local for gid in gids):
        return "only link-local GIDs"
    others = sorted({str(gid.address) for gid in gids if not gid.address.is_link_local and gid.type == ROCE_V2})
    return f"RoCE v2 only for {', '.join(others[:2])}" if others else "no RoCE v2 GID of an address"


def _interface_address(port: PortView) -> str:
    subnet = port.rail.subnet
    prefix = f"/{subnet.prefixlen}" if subnet else "/30"
    return f"{port.port.address}{prefix} dev {shlex.quote(port.port.netdev)}"


RULE = Rule(
    name="gid_rocev2",
    title="RoCE v2 GID for the port's address",
    scope="port",
    stage="rail",
    needs=(*CARD_PROBES, ibv_devinfo.PROBE),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
    at_restart=True,
)
