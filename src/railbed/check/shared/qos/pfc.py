"""Priority flow control of a port."""

from __future__ import annotations

from collections.abc import Collection
from shlex import quote

from railbed.check.shared.qos.tools import WIDTH, dcb_has, ofed_qos, refusal
from railbed.model.fix import Fix, Persistence, run
from railbed.probes import dcb_pfc
from railbed.rules.site import PortView


def pfc_priorities(port: PortView) -> tuple[int, ...] | str:
    """Return the priorities with PFC on, or why they are not known; if neither tool could be read, end as unknown."""
    netdev = port.port.netdev
    facts = port.node.try_read(dcb_pfc.PROBE)
    if facts and netdev in facts.interfaces:
        return facts.interfaces[netdev].enabled
    qos = ofed_qos(port)
    if qos and qos.pfc is not None:
        return qos.pfc
    return refusal(netdev, port.read(dcb_pfc.PROBE).refused)


def set_pfc(
    port: PortView, before: Collection[int], after: Collection[int], *, alternative: str = "", condition: str = ""
) -> Fix:
    """Turn PFC on for some priorities and off for all others; the mlx5 driver restarts the link for it."""
    command = _dcb_pfc if dcb_has(port, port.node.try_read(dcb_pfc.PROBE)) else _mlnx_pfc
    return Fix(
        device=port.node.name,
        apply=run(command(port.port.netdev, after)),
        undo=run(command(port.port.netdev, before)),
        persistence=Persistence.BOOT,
        interrupts=True,
        alternative=alternative,
        condition=condition,
    )


def _dcb_pfc(netdev: str, priorities: Collection[int]) -> str:
    on = "".join(f" {priority}:on" for priority in sorted(priorities))
    return f"dcb pfc set dev {quote(netdev)} prio-pfc all:off{on}"


def _mlnx_pfc(netdev: str, priorities: Collection[int]) -> str:
    switches = ",".join(str(int(priority in priorities)) for priority in range(WIDTH))
    return f"mlnx_qos -i {quote(netdev)} --pfc {switches}"
