"""QoS of a port, read and set with the tool that works there: `dcb` (any driver), else `mlnx_qos` (OFED)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from railbed.check.site import PortView
from railbed.model.fix import Fix, Persistence, RunStep, Step, run
from railbed.probes import dcb_app, dcb_pfc, mlnx_qos
from railbed.probes.mlnx_qos import Qos

WIDTH = 8
"""Priorities of a port."""


def ofed_qos(port: PortView) -> Qos | None:
    """Return the output of mlnx_qos for the port's interface, if it was read."""
    facts = port.node.try_read(mlnx_qos.PROBE)
    return facts.interfaces.get(port.port.netdev) if facts else None


def pfc_priorities(port: PortView) -> tuple[int, ...] | str:
    """Return the priorities with PFC on, or why they are not known; if neither tool could be read, end as unknown."""
    netdev = port.port.netdev
    facts = port.node.try_read(dcb_pfc.PROBE)
    if facts and netdev in facts.interfaces:
        return facts.interfaces[netdev].enabled
    qos = ofed_qos(port)
    if qos and qos.pfc is not None:
        return qos.pfc
    return _refusal(netdev, port.read(dcb_pfc.PROBE).refused)


def set_pfc(
    port: PortView, before: Collection[int], after: Collection[int], *, alternative: str = "", condition: str = ""
) -> Fix:
    """Turn PFC on for some priorities and off for all others; the mlx5 driver restarts the link for it."""
    command = _dcb_pfc if _dcb_has(port, port.node.try_read(dcb_pfc.PROBE)) else _mlnx_pfc
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
    return f"dcb pfc set dev {netdev} prio-pfc all:off{on}"


def _mlnx_pfc(netdev: str, priorities: Collection[int]) -> str:
    return f"mlnx_qos -i {netdev} --pfc {','.join(str(int(priority in priorities)) for priority in range(WIDTH))}"


def set_dscp(port: PortView, before: Iterable[int], *, alternative: str = "") -> Fix:
    """Map the policy's DSCP to the policy's priority, instead of to those it is mapped to."""
    netdev, dscp, priority = port.port.netdev, port.policy.dscp, port.policy.priority
    earlier = sorted(before)
    if _dcb_has(port, port.node.try_read(dcb_app.PROBE)):
        apply = f"dcb app replace dev {netdev} dscp-prio {dscp}:{priority}"
        pairs = " ".join(f"{dscp}:{number}" for number in earlier)
        undo = run(f"dcb app replace dev {netdev} dscp-prio {pairs}") if earlier else _dcb_delete(port)
        needs_trust = False
    else:
        command, qos = f"mlnx_qos -i {netdev} --dscp2prio", ofed_qos(port)
        apply, needs_trust = f"{command} set,{dscp},{priority}", qos is not None and qos.trust != "dscp"
        undo = run(f"{command} set,{dscp},{earlier[0]}") if earlier else _mlnx_delete(port)
    return Fix(
        device=port.node.name,
        apply=run(apply),
        undo=undo,
        persistence=Persistence.BOOT,
        interrupts=not earlier,
        after=("dscp_trust",) if needs_trust else (),
        alternative=alternative,
    )


def trust_dscp(port: PortView, before: str | None) -> Fix:
    """Make the card trust DSCP: with OFED's tool, else by the entry that makes the inbox driver trust DSCP."""
    netdev, pair = port.port.netdev, f"{port.policy.dscp}:{port.policy.priority}"
    if before is None:
        # The same command as in `set_dscp`, so that the fixes of both rules are equal.
        apply, undo = run(f"dcb app replace dev {netdev} dscp-prio {pair}"), _dcb_delete(port)
    else:
        apply, undo = (run(f"mlnx_qos -i {netdev} --trust {state}") for state in ("dscp", before))
    return Fix(device=port.node.name, apply=apply, undo=undo, persistence=Persistence.BOOT, interrupts=True)


def _dcb_delete(port: PortView) -> tuple[Step, ...]:
    netdev, pair = port.port.netdev, f"{port.policy.dscp}:{port.policy.priority}"
    present = f"dcb -N app show dev {netdev} dscp-prio | grep -qw {pair}"
    return (RunStep(command=f"dcb app del dev {netdev} dscp-prio {pair}", only_if=present),)


def _mlnx_delete(port: PortView) -> tuple[Step, ...]:
    netdev, dscp, priority = port.port.netdev, port.policy.dscp, port.policy.priority
    present = f"mlnx_qos -i {netdev} | grep -q 'prio:{priority} dscp:.*\\b{dscp:02},'"
    return (RunStep(command=f"mlnx_qos -i {netdev} --dscp2prio del,{dscp},{priority}", only_if=present),)


def _dcb_has(port: PortView, facts: dcb_pfc.DcbPfc | dcb_app.DcbApp | None) -> bool:
    """Whether `dcb` is installed and shows the object for this interface."""
    return facts is not None and port.port.netdev in facts.interfaces


def dscp_priorities(port: PortView) -> dict[int, tuple[int, ...]] | str:
    """Return the priorities by DSCP, or why they are not known; if neither tool could be read, end as unknown."""
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
