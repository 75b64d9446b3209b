"""The proof as a finding: which share of the gradients crossed RDMA, and if they did not, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from railbed.launch.fabric import NodeFabric
from railbed.model.record import Finding, Verdict
from railbed.model.span import Range
from railbed.model.text.amount import size
from railbed.train.network.proof import NodeTraffic

CHECK = "gradients_over_rdma"
EXPECTED = "gradients over RDMA"
WHY = (
    "TCP uses the cores that training needs and bypasses the lossless queue; engines fall back to it silently if "
    "RDMA does not work."
)


class Cause(NamedTuple):
    """The reason, and what to do about it."""

    because: str
    do: str


def finding(
    traffic: Sequence[NodeTraffic], transport: str, fabric: Mapping[str, NodeFabric], *, demanded: bool
) -> Finding:
    """Judge how the gradients left all nodes; `demanded` means that anything but RDMA is a failure."""
    carriers = {entry.carrier for entry in traffic}
    wrong = Verdict.FAIL if demanded else Verdict.WARN
    if carriers == {"rdma"}:
        verdict, observed, remedy = Verdict.OK, _over_rdma(traffic), ""
    elif "unknown" in carriers:
        verdict, (observed, remedy) = Verdict.UNKNOWN, _not_known(traffic)
    else:
        verdict, (observed, remedy) = wrong, _over_tcp(traffic, transport, fabric)
    return Finding(
        check=CHECK,
        subject="cluster",
        verdict=verdict,
        expected=EXPECTED,
        observed=observed,
        why=WHY,
        remedy=remedy,
        evidence="\n".join(line for entry in traffic for line in _evidence(entry)),
    )


def in_short(traffic: Sequence[NodeTraffic]) -> str:
    """Return the verdict in three words, for a short line."""
    carriers = {entry.carrier for entry in traffic}
    if carriers == {"rdma"}:
        return f"{_percent(_least(traffic))} RoCE"
    if "unknown" in carriers:
        return "path unknown"
    return "over TCP" if carriers <= {"tcp", "elsewhere"} else "partly over TCP"


def _over_rdma(traffic: Sequence[NodeTraffic]) -> str:
    least, total = _least(traffic), sum(entry.gradients for entry in traffic)
    where = _where([entry.node for entry in traffic])
    rest = f"{_percent(1 - least)} over TCP at most, including control"
    return f"{_percent(least)} of {size(total)} of gradients crossed RoCE on {where}; {rest}"


def _over_tcp(traffic: Sequence[NodeTraffic], transport: str, fabric: Mapping[str, NodeFabric]) -> tuple[str, str]:
    bad = [entry for entry in traffic if entry.carrier != "rdma"]
    total = size(sum(entry.gradients for entry in bad))
    partly = any(entry.carrier == "both" for entry in bad)
    cause = _cause(bad, transport, fabric)
    where = _where([entry.node for entry in bad], of=len(traffic))
    words = "gradients went partly over TCP" if partly else "gradients went over TCP"
    return f"{words}: {total} on {where}, because {cause.because}", cause.do


def _cause(bad: Sequence[NodeTraffic], transport: str, fabric: Mapping[str, NodeFabric]) -> Cause:
    for entry in bad:
        node = fabric.get(entry.node)
        if node and node.obstacle:
            return Cause(f"{entry.node} has no RDMA: {node.obstacle}", node.remedy or "`railbed check` has the details")
    if transport == "gloo":
        return Cause("gloo supports only TCP", "`railbed train --transport mpi`, or nccl for GPUs")
    away = next((entry for entry in bad if entry.carrier == "elsewhere"), None)
    if away:
        because = f"{transport} used {away.other_interface} of {away.node}, which is on no rail"
        return Cause(because, "`railbed train --show-env` shows which interfaces it may use")
    do = (
        "NCCL_DEBUG=INFO or UCX_LOG_LEVEL=info in the environment of the nodes: then the ranks' logs contain the reason"
    )
    return Cause(f"{transport} used sockets although RDMA is available", do)


def _not_known(traffic: Sequence[NodeTraffic]) -> tuple[str, str]:
    entry = next(entry for entry in traffic if entry.carrier == "unknown")
    blind = next((rail for rail in entry.rails if rail.rdma is None), None)
    if blind:
        why = f"{blind.rdma_port} of {entry.node} does not count the bytes it sends"
        return f"it is unknown what carried the gradients: {why}", "`railbed capture` shows the packets themselves"
    least, most = entry.share
    if least > most:
        why = f"neither RDMA nor TCP on the rails of {entry.node} moved by {size(entry.gradients)}"
        return (
            f"it is unknown what carried the gradients: {why}",
            "`railbed check rdma_device` looks for another device",
        )
    why = f"RDMA moved {bounds(entry.rdma)} and TCP {bounds(entry.tcp)} on {entry.node} at the same time"
    if entry.unread:
        why += f", and {entry.unread}"
    return (
        f"it is unknown what carried {size(entry.gradients)} of gradients: {why}",
        "prove it while nothing else uses the rails",
    )


def _evidence(entry: NodeTraffic) -> list[str]:
    lines = [f"{entry.node}: {size(entry.gradients)} of gradients, {size(entry.hook)} sent by the hook"]
    for rail in entry.rails:
        device = f" {rail.rdma_port}" if rail.rdma_port else " no device"
        line = f"{entry.node}/{rail.netdev} ({rail.rail}): RDMA{device} {bounds(rail.rdma)}, TCP {bounds(rail.tcp)}"
        others = f", other programs' TCP {size(rail.other_tcp)}" if rail.other_tcp else ""
        lines.append(line + others)
    for name, span in entry.elsewhere.items():
        ranks = f", TCP of the ranks {size(entry.away.get(name, 0))}" if entry.away is not None else ""
        lines.append(f"{entry.node}/{name} (on no rail): {bounds(span)}{ranks}")
    if entry.unread:
        lines.append(f"{entry.node}: TCP is not counted by connection: {entry.unread}")
    return lines


def bounds(span: Range | None) -> str:
    """Return a span of bytes as text."""
    if span is None:
        return "not counted"
    if span.most is None:
        return f"{size(span.least)} or more"
    if size(span.least) == size(span.most):
        return size(span.most)
    return f"{size(span.least)} to {size(span.most)}"


def _least(traffic: Sequence[NodeTraffic]) -> float:
    return min(entry.share[0] for entry in traffic)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _where(nodes: Sequence[str], of: int | None = None) -> str:
    if of is not None and len(nodes) < of:
        return " and ".join(nodes)
    return "both nodes" if len(nodes) == 2 else f"all {len(nodes)} nodes" if len(nodes) > 2 else nodes[0]
