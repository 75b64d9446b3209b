"""QoS of a port from whichever tool has it: `dcb` (any driver), else `mlnx_qos` (OFED)."""

from __future__ import annotations

from railbed.check.site import PortView
from railbed.probes import dcb_app, dcb_pfc, mlnx_qos
from railbed.probes.mlnx_qos import Qos


def ofed_qos(port: PortView) -> Qos | None:
    """Return what mlnx_qos says of the port's interface, if it is there and was read."""
    facts = port.node.try_read(mlnx_qos.PROBE)
    return facts.interfaces.get(port.port.netdev) if facts else None


def pfc_priorities(port: PortView) -> tuple[int, ...] | str:
    """Return the priorities with PFC on, or why they cannot be told; unread by both tools ends as unknown."""
    netdev = port.port.netdev
    facts = port.node.try_read(dcb_pfc.PROBE)
    if facts and netdev in facts.interfaces:
        return facts.interfaces[netdev].enabled
    qos = ofed_qos(port)
    if qos and qos.pfc is not None:
        return qos.pfc
    return _refusal(netdev, port.read(dcb_pfc.PROBE).refused)


def dscp_priorities(port: PortView) -> dict[int, tuple[int, ...]] | str:
    """Return the priorities by DSCP, or why they cannot be told; unread by both tools ends as unknown."""
    netdev = port.port.netdev
    facts = port.node.try_read(dcb_app.PROBE)
    if facts and netdev in facts.interfaces:
        return {int(dscp): priorities for dscp, priorities in facts.interfaces[netdev].dscp.items()}
    qos = ofed_qos(port)
    if qos and qos.trust is not None:
        return {int(dscp): (priority,) for dscp, priority in qos.dscp_prio.items()}
    return _refusal(netdev, port.read(dcb_app.PROBE).refused)


def _refusal(netdev: str, refused: dict[str, str]) -> str:
    return f"dcb: {refused[netdev]}" if netdev in refused else f"no interface {netdev}"
