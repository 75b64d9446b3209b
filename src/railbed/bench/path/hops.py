"""The verdicts of a lossless path, hop by hop: mark, class, queue, PFC, delivery, ECN, CNP.

A hop passes only if a counter there shows the marked stream. A hop without such a counter is unknown. The unmarked
stream is the control: if a counter shows that as well, it proves nothing about the mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from railbed.bench.path.movement import Amount, Movement
from railbed.model.cabling import Cable
from railbed.model.cluster import Policy, Port
from railbed.model.record import Finding, Verdict
from railbed.model.text import plural

MOST_OF_IT = 0.9
"""A counter that shows at least this share of a stream carried it."""
SOME_OF_IT = 0.5
"""A counter that shows at least this share of the control carried that as well: counters of a switch lag a little."""
WHY = {
    "path_mark": "A card that does not send with the priority of the policy mixes gradients with all other traffic.",
    "path_class": "A switch that does not recognise the mark puts gradients into a queue that drops.",
    "path_queue": "After one lost packet, the card sends everything that followed it again.",
    "path_pfc": "Without PFC on this priority the queue overflows instead of pausing the sender.",
    "path_delivery": "A receiver that does not recognise the priority cannot pause it either.",
    "path_ecn": "Without ECN marks senders slow down only when the fabric pauses, which stops everyone.",
    "path_cnp": "A sender that does not receive notifications does not slow down, and PFC has to stop it.",
}
MARKED_RECEIVED = ("np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "rx_rdma_ecn_pkts", "RxECNMrkd")
CNP_SENT = ("np_cnp_sent", "tx_cnp_pkts", "tx_rdma_cnp_pkts", "cnpSent")
CNP_HANDLED = ("rp_cnp_handled", "rx_cnp_pkts", "rx_rdma_cnp_pkts", "cnpHandled")
NO_PRIORITY_COUNTER = "the driver does not count by priority (mlx5, mlx4 and bnxt_en do)"
NOT_CONGESTED = "nothing was congested: one stream does not fill a queue"
DROPS = ("drop_packets", "drop_bytes", "watchdog_drop_packets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One direction of a path, and how its counters moved during a marked and an unmarked stream."""

    source: str
    source_port: Port
    target: str
    target_port: Port
    enters: Cable | None
    """Where the stream enters the switch; None if the cluster file does not have it."""
    leaves: Cable | None
    """Where it leaves the switch towards the receiver."""
    direct: bool = False
    """The two ports are cabled to each other, without a switch."""
    policy: Policy
    marked: Movement
    unmarked: Movement

    @property
    def subject(self) -> str:
        """The path, as bench names it."""
        return f"{self.source}/{self.source_port.netdev} > {self.target}"

    @property
    def sent(self) -> Amount:
        """How much the sender's RDMA port sent marked."""
        return self.marked.measure_sent(self.source, self.source_port)

    @property
    def sent_unmarked(self) -> Amount:
        """How much it sent unmarked."""
        return self.unmarked.measure_sent(self.source, self.source_port)


def judge(direction: Direction) -> Iterator[Finding]:
    """Yield the verdict of each hop, in the order of the path."""
    if not (direction.sent.bytes or direction.sent.packets):
        reason = f"{direction.source_port.rdma or direction.source_port.netdev} does not count what it sends over RDMA"
        yield _finding(direction, "path_mark", Verdict.UNKNOWN, "sent bytes", reason)
        return
    yield _mark(direction)
    yield _class(direction)
    yield _queue(direction)
    yield _pfc(direction)
    yield _delivery(direction)
    yield _ecn(direction)
    yield _cnp(direction)


def nothing_sent() -> Finding:
    """Return the finding for a cluster in which no stream could be sent."""
    return Finding(
        check="path_mark",
        subject="cluster",
        verdict=Verdict.UNKNOWN,
        expected="a marked RDMA stream between two nodes",
        observed="no stream was sent, so no path is proven",
        why=WHY["path_mark"],
        remedy="the other findings explain why; `railbed check` shows what RDMA lacks",
        essential=True,
    )


def _mark(direction: Direction) -> Finding:
    priority = direction.policy.priority
    carried, control = (
        movement.of_priority(direction.source, direction.source_port, "tx", priority)
        for movement in (direction.marked, direction.unmarked)
    )
    expected = f"{direction.source_port.netdev} sends the stream with priority {priority}"
    remedy = f"see roce_tos, dscp_map and dscp_trust of {direction.source}"
    return _judge_counter(direction, "path_mark", expected, carried, control, f"priority {priority} sent", remedy)


def _delivery(direction: Direction) -> Finding:
    priority = direction.policy.priority
    carried, control = (
        movement.of_priority(direction.target, direction.target_port, "rx", priority)
        for movement in (direction.marked, direction.unmarked)
    )
    expected = f"{direction.target} receives the stream with priority {priority}"
    remedy = f"see dscp_map and dscp_trust of {direction.target}, and whether the switch rewrites the DSCP"
    return _judge_counter(
        direction, "path_delivery", expected, carried, control, f"priority {priority} received", remedy
    )


def _judge_counter(  # noqa: PLR0917  (what to judge, and how to word it)
    direction: Direction, check: str, expected: str, carried: Amount, control: Amount, what: str, remedy: str
) -> Finding:
    """Judge a counter by how much of the stream, and of the control, it shows."""
    share = carried.share_of(direction.sent)
    if share is None:
        return _finding(direction, check, Verdict.UNKNOWN, expected, NO_PRIORITY_COUNTER)
    observed = f"{what} {carried} of {direction.sent}"
    if share < MOST_OF_IT:
        return _finding(direction, check, Verdict.FAIL, expected, observed, remedy=remedy)
    if (control.share_of(direction.sent_unmarked) or 0.0) >= SOME_OF_IT:
        observed += f", and {control} of the unmarked stream: everything has this priority, regardless of its mark"
        return _finding(direction, check, Verdict.WARN, expected, observed, remedy=remedy)
    return _finding(direction, check, Verdict.OK, expected, observed)


def _class(direction: Direction) -> Finding:
    """Judge which queue of the port towards the receiver carried the stream."""
    expected = f"the switch puts DSCP {direction.policy.dscp} into a no-drop queue"
    if obstacle := _no_switch(direction, "path_class", expected):
        return obstacle
    lossless, others = _amounts(direction, direction.marked)
    shares = {group: amount.share_of(direction.sent) or 0.0 for group, amount in lossless.items()}
    best = max(shares, key=lambda group: shares[group], default="")
    if not best:
        return _finding(
            direction,
            "path_class",
            Verdict.FAIL,
            expected,
            f"{_place(direction.leaves)} has no no-drop queue",
            remedy="railbed configure",
        )
    observed = f"queue {best} of {_place(direction.leaves)} carried {lossless[best]} of {direction.sent}"
    if shares[best] < MOST_OF_IT:
        elsewhere = {group: amount.share_of(direction.sent) or 0.0 for group, amount in others.items()}
        other = max(elsewhere, key=lambda group: elsewhere[group], default="")
        if other and elsewhere[other] >= SOME_OF_IT:
            observed += f"; queue {other}, which drops, carried {others[other]}"
        return _finding(direction, "path_class", Verdict.FAIL, expected, observed, remedy="railbed configure")
    control = _amounts(direction, direction.unmarked)[0].get(best, Amount())
    if (control.share_of(direction.sent_unmarked) or 0.0) >= SOME_OF_IT:
        observed += f", and {control} of the unmarked stream: the switch ignores the mark"
        return _finding(direction, "path_class", Verdict.WARN, expected, observed, remedy="railbed configure")
    return _finding(direction, "path_class", Verdict.OK, expected, observed)


def _queue(direction: Direction) -> Finding:
    """Judge whether the no-drop queue of the port towards the receiver dropped anything."""
    expected = "the no-drop queue drops nothing"
    if obstacle := _no_switch(direction, "path_queue", expected):
        return obstacle
    port = direction.marked.queues(direction.leaves) if direction.leaves else None
    lossless = {group: queue for group, queue in port.queues.items() if queue.no_drop} if port else {}
    dropped = {
        group: count for group, queue in lossless.items() if (count := max(map(queue.counters.get, DROPS, (0, 0, 0))))
    }
    if not lossless:
        reason = f"{_place(direction.leaves)} has no no-drop queue: see path_class"
        return _finding(direction, "path_queue", Verdict.SKIPPED, expected, reason)
    if not any(name in queue.counters for queue in lossless.values() for name in DROPS):
        reason = f"{_place(direction.leaves)} does not count drops by queue"
        return _finding(direction, "path_queue", Verdict.UNKNOWN, expected, reason)
    if dropped:
        listed = ", ".join(f"queue {group} dropped {count}" for group, count in dropped.items())
        remedy = "see the switch's PFC, and whether the sender obeys it (pfc of the node)"
        return _finding(direction, "path_queue", Verdict.FAIL, expected, listed, remedy=remedy)
    return _finding(direction, "path_queue", Verdict.OK, expected, f"no drop in queue {', '.join(lossless)}")


def _pfc(direction: Direction) -> Finding:
    """Judge whether PFC works on both switch ports; the pauses are evidence."""
    priority = direction.policy.priority
    expected = f"PFC operates on priority {priority} of both switch ports"
    if obstacle := _no_switch(direction, "path_pfc", expected):
        return obstacle
    ports = {_place(cable): direction.marked.pfc(cable) for cable in (direction.enters, direction.leaves) if cable}
    silent = [place for place, port in ports.items() if port is None]
    if silent or len(ports) < 2:
        reason = f"PFC of {' and '.join(silent) or 'the sender’s switch port'} was not read"
        return _finding(direction, "path_pfc", Verdict.UNKNOWN, expected, reason)
    off = [place for place, port in ports.items() if port and not (port.operational and priority in port.priorities)]
    evidence = "\n".join(
        [
            f"{place}: {plural(port.sent, 'pause')} sent, {port.received} received"
            for place, port in ports.items()
            if port
        ]
        + [
            f"{node}/{port.netdev}: {plural(count, 'pause')} of priority {priority} {word}"
            for node, port in ((direction.source, direction.source_port), (direction.target, direction.target_port))
            for way, word in (("tx", "sent"), ("rx", "received"))
            if (count := direction.marked.pauses(node, port, way, priority)) is not None
        ]
    )
    if off:
        observed = f"not on {' and '.join(off)}"
        finding = _finding(direction, "path_pfc", Verdict.FAIL, expected, observed, remedy="railbed configure")
    else:
        finding = _finding(direction, "path_pfc", Verdict.OK, expected, f"on {' and '.join(ports)}")
    return replace(finding, evidence=evidence)


def _ecn(direction: Direction) -> Finding:
    """Compare the marks that the switch set with those that the receiver counted."""
    expected = "packets that the switch marks arrive marked"
    if not direction.policy.ecn:
        return _finding(direction, "path_ecn", Verdict.SKIPPED, expected, "the policy has ECN off")
    received = direction.marked.rdma_counter(direction.target, direction.target_port, MARKED_RECEIVED)
    port = direction.marked.queues(direction.leaves) if direction.leaves else None
    marks = (
        [queue.counters["ecn_packets"] for queue in port.queues.values() if "ecn_packets" in queue.counters]
        if port
        else []
    )
    if received is None:
        reason = f"{direction.target_port.rdma} does not count marked packets"
        return _finding(direction, "path_ecn", Verdict.UNKNOWN, expected, reason)
    if sum(marks) and not received:
        observed = f"the switch marked {sum(marks)} packets, the receiver counted none"
        remedy = f"see dcqcn of {direction.target}"
        return _finding(direction, "path_ecn", Verdict.FAIL, expected, observed, remedy=remedy)
    if not received:
        return _finding(direction, "path_ecn", Verdict.SKIPPED, expected, NOT_CONGESTED)
    return _finding(direction, "path_ecn", Verdict.OK, expected, f"the receiver counted {received} marked packets")


def _cnp(direction: Direction) -> Finding:
    """Compare the notifications that the receiver sent with those that the sender obeyed."""
    expected = "the sender obeys the receiver's congestion notifications"
    if not direction.policy.ecn:
        return _finding(direction, "path_cnp", Verdict.SKIPPED, expected, "the policy has ECN off")
    sent = direction.marked.rdma_counter(direction.target, direction.target_port, CNP_SENT)
    handled = direction.marked.rdma_counter(direction.source, direction.source_port, CNP_HANDLED)
    if sent is None or handled is None:
        silent = direction.target_port.rdma if sent is None else direction.source_port.rdma
        return _finding(direction, "path_cnp", Verdict.UNKNOWN, expected, f"{silent} does not count notifications")
    if not sent:
        return _finding(direction, "path_cnp", Verdict.SKIPPED, expected, NOT_CONGESTED)
    observed = f"{direction.target} sent {sent}, {direction.source} obeyed {handled}"
    if not handled:
        remedy = f"see dcqcn of {direction.source}, and the class of DSCP {direction.policy.cnp_dscp} on the switch"
        return _finding(direction, "path_cnp", Verdict.FAIL, expected, observed, remedy=remedy)
    return _finding(direction, "path_cnp", Verdict.OK, expected, observed)


def _amounts(direction: Direction, movement: Movement) -> tuple[dict[str, Amount], dict[str, Amount]]:
    """Return what the no-drop queues of the port towards the receiver carried, and what the other queues did."""
    port = movement.queues(direction.leaves) if direction.leaves else None
    lossless: dict[str, Amount] = {}
    others: dict[str, Amount] = {}
    for group, queue in port.queues.items() if port else ():
        amount = Amount(bytes=queue.counters.get("tx_bytes"), packets=queue.counters.get("tx_packets"))
        (lossless if queue.no_drop else others)[group] = amount
    return lossless, others


def _no_switch(direction: Direction, check: str, expected: str) -> Finding | None:
    """Return why a hop in the switch cannot be judged; None if its queues were read."""
    if direction.direct:
        return _finding(direction, check, Verdict.SKIPPED, expected, "the cable leads from node to node")
    if direction.leaves is None:
        reason = f"the cluster file names no switch port for {direction.target}/{direction.target_port.netdev}"
        remedy = "railbed discover --switch NAME"
        return _finding(direction, check, Verdict.UNKNOWN, expected, reason, remedy=remedy)
    if direction.marked.queues(direction.leaves) is None:
        reason = f"the queues of {_place(direction.leaves)} were not read"
        return _finding(
            direction, check, Verdict.UNKNOWN, expected, reason, remedy=f"see reachable of {direction.leaves.switch}"
        )
    return None


def _place(cable: Cable | None) -> str:
    return f"{cable.switch} {cable.switch_port.name}" if cable else "the switch"


def _finding(  # noqa: PLR0917  (the parts of a finding)
    direction: Direction, check: str, verdict: Verdict, expected: str, observed: str, remedy: str = ""
) -> Finding:
    return Finding(
        check=check,
        subject=direction.subject,
        verdict=verdict,
        expected=expected,
        observed=observed,
        why=WHY[check],
        remedy=remedy,
        essential=True,
    )
