"""How a port sorts packets: whether it trusts DSCP, and which priority a DSCP gets."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from railbed.check.shared.qos.tools import dcb_has, ofed_qos, refusal
from railbed.model.fix import Fix, Persistence, RunStep, Step, run
from railbed.probes import dcb_app
from railbed.rules.site import PortView


def dscp_priorities(port: PortView) -> dict[int, tuple[int, ...]] | str:
    """Return the priorities by DSCP, or why they are not known; if neither tool could be read, end as unknown."""
    netdev = port.port.netdev
    facts = port.node.try_read(dcb_app.PROBE)
    if facts and netdev in facts.interfaces:
        return {int(dscp): priorities for dscp, priorities in facts.interfaces[netdev].dscp.items()}
    qos = ofed_qos(port)
    if qos and qos.trust is not None:
        return {int(dscp): (priority,) for dscp, priority in qos.dscp_prio.items()}
    return refusal(netdev, port.read(dcb_app.PROBE).refused)


def set_dscp(port: PortView, before: Iterable[int], *, alternative: str = "") -> Fix:
    """Map the policy's DSCP to the policy's priority, instead of to those it is mapped to."""
    netdev, dscp, priority = quote(port.port.netdev), port.policy.dscp, port.policy.priority
    earlier = sorted(before)
    if dcb_has(port, port.node.try_read(dcb_app.PROBE)):
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
    netdev, pair = quote(port.port.netdev), f"{port.policy.dscp}:{port.policy.priority}"
    if before is None:
        # The same command as in `set_dscp`, so that the fixes of both rules are equal.
        apply, undo = run(f"dcb app replace dev {netdev} dscp-prio {pair}"), _dcb_delete(port)
    else:
        apply, undo = (run(f"mlnx_qos -i {netdev} --trust {quote(state)}") for state in ("dscp", before))
    return Fix(device=port.node.name, apply=apply, undo=undo, persistence=Persistence.BOOT, interrupts=True)


def _dcb_delete(port: PortView) -> tuple[Step, ...]:
    netdev, pair = quote(port.port.netdev), f"{port.policy.dscp}:{port.policy.priority}"
    present = f"dcb -N app show dev {netdev} dscp-prio | grep -qw {pair}"
    return (RunStep(command=f"dcb app del dev {netdev} dscp-prio {pair}", only_if=present),)


def _mlnx_delete(port: PortView) -> tuple[Step, ...]:
    netdev, dscp, priority = quote(port.port.netdev), port.policy.dscp, port.policy.priority
    present = f"mlnx_qos -i {netdev} | grep -q 'prio:{priority} dscp:.*\\b{dscp:02},'"
    return (RunStep(command=f"mlnx_qos -i {netdev} --dscp2prio del,{dscp},{priority}", only_if=present),)
