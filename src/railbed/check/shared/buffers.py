"""Receive buffers and congestion control of a port.

Buffers: which priority uses which, and whether the lossless one holds what follows a pause. Congestion control comes
from OFED's sysfs (by interface) or the inbox driver's debugfs (by PCI address).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Literal

from railbed.check.shared.card import Ability, card_of
from railbed.check.shared.port import rdma_device
from railbed.check.shared.qos import WIDTH, dcb_has, dcb_row, ofed_qos, refusal, shows
from railbed.model.fix import Fix, Persistence, RunStep
from railbed.model.probe import Probe
from railbed.probes import dcb_buffer, dcqcn, ethtool, infiniband, pcie
from railbed.probes.dcqcn import Ecn
from railbed.rules.judgement import Judgement, skip, unknown
from railbed.rules.site import PortView

CABLE_METRES = 7
"""The length that drivers assume if nothing else is set."""
LEAST_GBITS = 40.0
"""The driver counts slower links as this fast."""
CELLS = 1152
"""Sizes are multiples of it, and so of the cells of all cards (128 or 144 bytes): a card rounds others down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPolicy:
    """The receive buffers of a port; each row has eight values."""

    prio_buffer: tuple[int, ...]
    """Buffer of each priority."""
    sizes: tuple[int, ...]
    """Bytes of each buffer."""
    cable_metres: int = CABLE_METRES

    def sharing(self, priority: int) -> list[int]:
        """Return the other priorities that use the buffer of a priority."""
        own = self.prio_buffer[priority]
        return [other for other, buffer in enumerate(self.prio_buffer) if buffer == own and other != priority]

    def size(self, priority: int) -> int:
        """Return the bytes of the buffer of a priority."""
        return self.sizes[self.prio_buffer[priority]]


def receive_buffers(port: PortView) -> BufferPolicy | str:
    """Return the port's buffers, or why they are not known; if neither tool could be read, end as unknown."""
    netdev = port.port.netdev
    facts, qos = port.node.try_read(dcb_buffer.PROBE), ofed_qos(port)
    metres = (qos.cable_len if qos else None) or CABLE_METRES
    if facts and netdev in facts.interfaces:
        shown = facts.interfaces[netdev]
        return BufferPolicy(prio_buffer=shown.prio_buffer, sizes=shown.sizes, cable_metres=metres)
    if qos and qos.prio_buffer and qos.buffer_sizes and len(qos.prio_buffer) == len(qos.buffer_sizes) == WIDTH:
        return BufferPolicy(prio_buffer=qos.prio_buffer, sizes=qos.buffer_sizes, cable_metres=metres)
    return refusal(netdev, port.read(dcb_buffer.PROBE).refused)


def headroom(port: PortView, buffers: BufferPolicy) -> int:
    """Return the bytes that may arrive after a pause was sent, and one packet: the formula of the mlx5 driver.

    It is 0 for a driver that shows no sizes: only the use of buffers can be judged there.
    """
    if not any(buffers.sizes):
        return 0
    gbits = max(_negotiated_gbits(port) or float(port.rail.speed or 0), LEAST_GBITS)
    return round((301 + 2.16 * buffers.cable_metres) * gbits + 2.72 * port.mtu + port.mtu)


def _negotiated_gbits(port: PortView) -> float | None:
    """Return the speed of the link, which the driver computes with; None if neither source reports one."""
    facts, device = port.node.try_read(ethtool.PROBE), rdma_device(port)
    settings = facts.interfaces.get(port.port.netdev) if facts else None
    if settings and settings.speed_mbps:
        return settings.speed_mbps / 1000
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    return own.rate_gbps if own else None


def lossless_buffers(before: BufferPolicy, lossless: int, needed: int) -> BufferPolicy | None:
    """Return buffers in which the lossless priority has one of its own that is large enough; None if none can be.

    If it has to grow, half of the largest of the others moves to it, so that the sum stays the same.
    """
    own = before.prio_buffer[lossless]
    if before.sharing(lossless):
        free = [number for number in range(WIDTH) if number not in before.prio_buffer]
        if not free:
            return None
        own = max(free, key=lambda number: (before.sizes[number] >= needed, -number))
    prio_buffer = tuple(own if priority == lossless else buffer for priority, buffer in enumerate(before.prio_buffer))
    sizes = list(before.sizes)
    if sizes[own] < needed:
        donor = max((number for number in range(WIDTH) if number != own), key=sizes.__getitem__)
        half = sizes[donor] // 2 // CELLS * CELLS
        if sizes[own] + half < needed:
            return None
        sizes[own], sizes[donor] = sizes[own] + half, sizes[donor] - half
    return replace(before, prio_buffer=prio_buffer, sizes=tuple(sizes))


def set_buffers(port: PortView, before: BufferPolicy, after: BufferPolicy) -> Fix:
    """Set the buffers of a port; the card empties them for it."""
    step = _dcb_step if dcb_has(port, port.node.try_read(dcb_buffer.PROBE)) else _mlnx_step
    return Fix(
        device=port.node.name,
        apply=(step(port.port.netdev, after),),
        undo=(step(port.port.netdev, before),),
        persistence=Persistence.BOOT,
        interrupts=True,
    )


def _dcb_step(netdev: str, buffers: BufferPolicy) -> RunStep:
    mapped, sizes = dict(enumerate(buffers.prio_buffer)), dict(enumerate(buffers.sizes))
    used = "|".join(str(number) for number in sorted(set(buffers.prio_buffer)) if sizes[number])
    empty = f"dcb buffer show dev {quote(netdev)} buffer-size | grep -qE '\\b({used}):0b?\\b'"
    return RunStep(
        command=f"dcb buffer set dev {quote(netdev)} prio-buffer {dcb_row(mapped)} buffer-size {dcb_row(sizes)}",
        # A card rounds sizes to its cells: only that the buffers in use have any is certain.
        verify=f"{shows('buffer', netdev, 'prio-buffer', mapped)}{f' && ! {empty}' if used else ''}",
    )


def _mlnx_step(netdev: str, buffers: BufferPolicy) -> RunStep:
    mapped, sizes = (",".join(map(str, row)) for row in (buffers.prio_buffer, buffers.sizes))
    return RunStep(command=f"mlnx_qos -i {quote(netdev)} --prio2buffer {mapped} --buffer_size {sizes}")


CONGESTION_PROBES: tuple[Probe[Any], ...] = (dcqcn.PROBE, infiniband.PROBE, pcie.PROBE)
"""What `congestion_of` reads."""


CongestionSetting = Literal["enable", "cnp_dscp"]
_MLX5 = "OFED has /sys/class/net/{netdev}/ecn; the inbox mlx5 driver has cc_params in debugfs, for root"
_BROADCOM = (
    "Broadcom's own driver shows it in configfs: `mkdir -p /sys/kernel/config/bnxt_re/{{device}}`, then `{file}` in "
    "ports/{{number}}/cc below it, and `echo -n 0x1 > apply` after a change; or `niccli`"
)
ADVICE: dict[str, dict[CongestionSetting, str]] = {
    "mlx5": {"enable": _MLX5, "cnp_dscp": _MLX5},
    "bnxt_re": {"enable": _BROADCOM.format(file="ecn_enable"), "cnp_dscp": _BROADCOM.format(file="cnp_dscp")},
    "irdma": {
        "enable": "Intel's driver shows it in configfs: `mkdir -p /sys/kernel/config/irdma/{device}`, then "
        "`roce_dcqcn_enable` below it (1 is on; DCQCN is one of several algorithms)",
        "cnp_dscp": "Intel's driver documents no setting: `railbed capture` shows the DSCP that notifications have",
    },
}
"""Where the drivers of a family of cards show a setting of congestion control."""


@dataclass(frozen=True, slots=True)
class Congestion:
    """What the driver shows; both parts may be missing."""

    ofed: Ecn | None
    inbox: dict[str, int | None]
    folder: str
    """Folder of the parameters on the node."""

    @property
    def cnp_dscp(self) -> int | None:
        """The DSCP of congestion notification packets."""
        return self.ofed.parameters.get("np_cnp_dscp") if self.ofed else self.inbox.get("np_cnp_dscp")


def dcqcn_obstacle(port: PortView, expected: str) -> Judgement | None:
    """Explain why congestion control is not judged: the card does not support it."""
    lacking = card_of(port).lacks(Ability.DCQCN)
    return skip(lacking, expected=expected) if lacking else None


def not_shown(port: PortView, expected: str, setting: CongestionSetting) -> Judgement:
    """Return that the port's driver shows nothing, and where drivers of its kind show it."""
    family = card_of(port).family
    advice = ADVICE.get(family or "mlx5", {}).get(setting, "see the guide of the card's maker")
    where = advice.format(device=port.port.rdma, number=port.port.rdma_port, netdev=port.port.netdev)
    return unknown(expected=expected, observed="the driver shows no congestion control", remedy=where)


def congestion_of(port: PortView) -> Congestion | None:
    """Return what the port's driver shows, or None if it shows nothing; unread facts end as unknown."""
    facts = port.read(dcqcn.PROBE)
    netdev = port.port.netdev
    if netdev in facts.interfaces:
        return Congestion(facts.interfaces[netdev], {}, f"/sys/class/net/{netdev}/ecn")
    address = _pci_address(port)
    if address in facts.cards:
        return Congestion(None, facts.cards[address], f"/sys/kernel/debug/mlx5/{address}/cc_params")
    return None


def _pci_address(port: PortView) -> str:
    device = rdma_device(port)
    if device and device.pci:
        return device.pci
    cards = port.node.try_read(pcie.PROBE)
    if cards is None:
        return ""
    return next((address for address, card in cards.cards.items() if port.port.netdev in card.netdevs), "")
