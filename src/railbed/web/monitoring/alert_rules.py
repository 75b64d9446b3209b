"""The alerts: about a lossless fabric (pauses, notifications, drops), about nodes, their links, and the training."""

from __future__ import annotations

from collections.abc import Iterator

from railbed.web.monitoring.alerts import (
    Alert,
    Case,
    changed_series,
    constant,
    ended_series,
    fires,
    grew,
    growing,
    jumping,
    lately,
    near_miss,
)
from railbed.web.monitoring.site import MonitoredCluster

STORM_SHARE = 0.5
PAUSE_SHARE = 0.05
CNP_PER_SECOND = 100
CNP_HANDLED_SHARE = 0.1
_CNP = ("rdma_cnp_sent", "rdma_cnp_handled")
_QUEUE_DROPS = ("queue_drop_packets", "queue_wred_drop_packets")


def fabric_alerts(site: MonitoredCluster) -> Iterator[Alert]:
    """Yield the alerts for the RDMA ports and the switches of a cluster."""
    if not site.rdma_ports:
        return
    if site.cluster.policy.pfc:
        yield _pfc_storm(site)
        yield _pause_share(site)
        yield _lossless_drops(site)
    if site.cluster.policy.ecn:
        yield _cnp_without_reaction(site)
        yield _cnp_ignored(site)


def _pfc_storm(site: MonitoredCluster) -> Alert:
    terms = [
        site.grew("pause_storm_warnings"),
        site.grew("pause_storm_errors"),
        f"rate({site.select('pause_rx_us', priority=site.priority)}[1m]) > {STORM_SHARE}",
    ]
    if site.switch_ports:
        terms.append(site.grew("watchdog_shutdowns", queue=site.queue))
    return Alert(
        name="RailbedPfcStorm",
        expr="\nor ".join(terms),
        severity="critical",
        summary="PFC storm on {{ $labels.rail }} at {{ $labels.node }}.",
        action="A port that keeps its neighbour paused stops the rail for every node. `railbed diagnose` names the "
        "port that sends the pauses.",
        cases=(*_storm_cases(site), *_watchdog_cases(site)),
    )


def _storm_cases(site: MonitoredCluster) -> Iterator[Case]:
    port = site.rdma_ports[0]
    pauses = port.series("pause_rx_us", site.priority)
    yield from grew("a pause lasted suspiciously long", port.labels(), port.series("pause_storm_warnings"))
    yield from grew("a card stopped pausing", port.labels(), port.series("pause_storm_errors"))
    labels = port.labels(priority=site.priority)
    yield fires("paused more than half of the time", labels, growing(pauses, STORM_SHARE * 1.1))
    yield near_miss("paused almost half of the time", growing(pauses, STORM_SHARE * 0.9))
    yield near_miss("another priority is paused", growing(port.series("pause_rx_us", site.other_priority), 0.9))


def _watchdog_cases(site: MonitoredCluster) -> Iterator[Case]:
    for port in site.switch_ports[:1]:
        shutdowns = port.series("watchdog_shutdowns", site.queue)
        yield from grew("the watchdog shut the queue", port.labels(queue=site.queue), shutdowns)
        other = port.series("watchdog_shutdowns", site.other_priority)
        yield near_miss("the watchdog shut another queue", jumping(other, 1))


def _pause_share(site: MonitoredCluster) -> Alert:
    received, sent = (site.select(meter, priority=site.priority) for meter in ("pause_rx_us", "pause_tx_us"))
    port = site.rdma_ports[0]
    rx, tx = (port.series(meter, site.priority) for meter in ("pause_rx_us", "pause_tx_us"))
    above, below = PAUSE_SHARE * 1.1, PAUSE_SHARE * 0.9
    return Alert(
        name="RailbedPauseShare",
        expr=f'label_replace(rate({received}[1m]), "direction", "received", "", "") > {PAUSE_SHARE}\n'
        f'or label_replace(rate({sent}[1m]), "direction", "sent", "", "") > {PAUSE_SHARE}',
        hold="2m",
        summary="{{ $labels.node }} {{ $labels.port }} ({{ $labels.rail }}) spends more than "
        f"{PAUSE_SHARE:.0%} of the time with pauses {{{{ $labels.direction }}}}.",
        action="Pauses received: the fabric is congested. Pauses sent: this node does not take packets fast enough. "
        "`railbed diagnose` shows which.",
        cases=(
            fires("stopped too often", port.labels(priority=site.priority, direction="received"), growing(rx, above)),
            fires("stops too often", port.labels(priority=site.priority, direction="sent"), growing(tx, above)),
            near_miss("paused less", growing(rx, below), growing(tx, below)),
            near_miss("paused for a minute", lately(rx, 70, above)),
            near_miss("another priority is paused", growing(port.series("pause_rx_us", site.other_priority), 0.4)),
        ),
    )


def _lossless_drops(site: MonitoredCluster) -> Alert:
    terms = [site.grew("priority_rx_drops", priority=site.priority)]
    if site.switch_ports:
        terms += [site.grew(meter, queue=site.queue) for meter in _QUEUE_DROPS]
        terms.append(site.grew("ingress_drop_packets"))
    return Alert(
        name="RailbedLosslessDrops",
        expr="\nor ".join(terms),
        severity="critical",
        summary="Packets of the lossless class are dropped on {{ $labels.rail }} at {{ $labels.node }}.",
        action="PFC does not work from end to end, or the buffer is too small for the cable. `railbed check` compares "
        "PFC on both ends.",
        cases=tuple(_drop_cases(site)),
    )


def _drop_cases(site: MonitoredCluster) -> Iterator[Case]:
    port = site.rdma_ports[0]
    in_card = port.series("priority_rx_drops", site.priority)
    yield from grew("the card drops", port.labels(priority=site.priority), in_card)
    yield near_miss("another priority drops", growing(port.series("priority_rx_drops", site.other_priority), 100))
    for end in site.switch_ports[:1]:
        for meter in _QUEUE_DROPS:
            yield from grew(f"{meter} of the switch", end.labels(queue=site.queue), end.series(meter, site.queue))
            yield near_miss(f"{meter} of another queue", growing(end.series(meter, site.other_priority), 100))
        yield from grew("the switch drops on arrival", end.labels(), end.series("ingress_drop_packets"))


def _cnp_without_reaction(site: MonitoredCluster) -> Alert:
    sent, handled = (f"sum by (cluster, rail) (rate({site.select(meter)}[2m]))" for meter in _CNP)
    port = site.rdma_ports[0]
    of_port, by_port = (port.series(meter) for meter in _CNP)
    much, little = CNP_PER_SECOND * 1.1, CNP_PER_SECOND * 0.9
    return Alert(
        name="RailbedCnpWithoutReaction",
        expr=f"{sent} > {CNP_PER_SECOND}\nand {handled} < {CNP_HANDLED_SHARE} * {sent}",
        hold="2m",
        summary="Receivers on {{ $labels.rail }} send congestion notifications, but senders hardly react.",
        action="Notifications are lost on the way, or DCQCN is off on the senders. `railbed check` verifies both.",
        cases=(
            fires(
                "few are handled",
                {"cluster": site.name, "rail": port.rail},
                growing(of_port, much),
                growing(by_port, much * CNP_HANDLED_SHARE * 0.9),
            ),
            near_miss("enough are handled", growing(of_port, much), growing(by_port, much * CNP_HANDLED_SHARE * 1.1)),
            near_miss("there are few", growing(of_port, little), growing(by_port, 0)),
            near_miss("the senders cannot count them", growing(of_port, much)),
            near_miss("for a minute", lately(of_port, 60, 3 * much), constant(by_port, 0)),
        ),
    )


def _cnp_ignored(site: MonitoredCluster) -> Alert:
    port = site.rdma_ports[0]
    return Alert(
        name="RailbedCnpIgnored",
        expr=site.grew("rdma_cnp_ignored"),
        summary="{{ $labels.node }} {{ $labels.port }} ({{ $labels.rail }}) ignores congestion notifications.",
        action="DCQCN is off on this card. `railbed check` names the setting, `railbed configure` sets it.",
        cases=grew("ignores one", port.labels(), port.series("rdma_cnp_ignored")),
    )


OUT_OF_SEQUENCE = 10
FLAPS = 1.5
"""Between going down, one change, and going down and up again."""
TCP_SHARE = 0.1
TCP_BYTES_PER_SECOND = 100_000_000
"""For rails whose speed is not known."""
TCP_TIMES_RDMA = 10
IDLE_SHARE_OF_STEP = 0.15
LEAST_IDLE_SHARE = 0.1
MANAGEMENT = "mgmt0"
"""An interface that is not on a rail, for cases."""


def node_alerts(site: MonitoredCluster) -> Iterator[Alert]:
    """Yield the alerts that do not depend on the lossless policy."""
    if site.rdma_ports:
        yield _out_of_sequence(site)
    if site.ports:
        yield _link_flap(site)
    for limit, rails in _tcp_limits(site).items():
        yield _tcp_fallback(site, rails, limit)
    yield _straggler(site)


def _out_of_sequence(site: MonitoredCluster) -> Alert:
    port = site.rdma_ports[0]
    packets = port.series("rdma_out_of_sequence")
    return Alert(
        name="RailbedOutOfSequence",
        expr=f"increase({site.select('rdma_out_of_sequence')}[5m]) > {OUT_OF_SEQUENCE}",
        summary="RDMA packets arrive out of sequence at {{ $labels.node }} {{ $labels.port }} ({{ $labels.rail }}).",
        action="Packets are lost on the way and sent again. `railbed diagnose` shows where.",
        cases=(
            fires("packets are missing", port.labels(), jumping(packets, OUT_OF_SEQUENCE * 1.1)),
            near_miss("a few packets are missing", jumping(packets, OUT_OF_SEQUENCE * 0.9)),
        ),
    )


def _link_flap(site: MonitoredCluster) -> Alert:
    changes = site.select("net_carrier_changes", rail_matches=".+")
    went_down = site.grew("rdma_link_downed", "15m", rail_matches=".+")
    return Alert(
        name="RailbedLinkFlap",
        expr=f"increase({changes}[15m]) > {FLAPS}\nor {went_down}",
        summary="The link of {{ $labels.node }} {{ $labels.port }} ({{ $labels.rail }}) went down and up.",
        action="Connections break when a link goes down. Look for a loose cable or a dirty connector; `railbed check` "
        "shows errors of the link.",
        cases=tuple(_flap_cases(site)),
    )


def _flap_cases(site: MonitoredCluster) -> Iterator[Case]:
    port = site.ports[0]
    changes = port.series("net_carrier_changes")
    yield fires("down and up", port.labels(), jumping(changes, 2))
    yield near_miss("down only", jumping(changes, 1))
    yield near_miss("flaps long ago", constant(changes, 9))
    yield from grew("the RDMA port went down", port.labels(), port.series("rdma_link_downed"))
    elsewhere = site.select("net_carrier_changes", node=port.device, port=MANAGEMENT)
    yield near_miss("an interface that is not on a rail", jumping(elsewhere, 4))


def _tcp_limits(site: MonitoredCluster) -> dict[float, list[str]]:
    """Return rails with RDMA by the rate from which TCP is much."""
    rails: dict[float, list[str]] = {}
    for rail in dict.fromkeys(port.rail for port in site.rdma_ports):
        speed = site.bytes_per_second(rail)
        limit = TCP_BYTES_PER_SECOND if speed is None else speed * TCP_SHARE
        rails.setdefault(limit, []).append(rail)
    return rails


def _tcp_fallback(site: MonitoredCluster, rails: list[str], limit: float) -> Alert:
    ports = site.rdma_selection(rails)
    sent = f"rate({site.select('net_tx_bytes', **ports)}[1m])"
    over_rdma = site.select("rdma_tx_bytes", **ports)
    return Alert(
        name="RailbedTcpFallback",
        # Some cards do not count what they send over RDMA; one that did and stopped has lost its driver.
        expr=f"{sent} > {limit:.0f}\nand present_over_time({over_rdma}[1h])\n"
        f"unless rate({over_rdma}[1m]) * {TCP_TIMES_RDMA} > {sent}",
        hold="2m",
        summary="{{ $labels.node }} {{ $labels.port }} ({{ $labels.rail }}) sends much over TCP and little over RDMA.",
        action="Training has probably fallen back to TCP. `railbed check --prove training` shows what carries the "
        "gradients, and why.",
        cases=tuple(_fallback_cases(site, rails, limit)),
    )


def _fallback_cases(site: MonitoredCluster, rails: list[str], limit: float) -> Iterator[Case]:
    port = next(port for port in site.rdma_ports if port.rail in rails)
    tcp, rdma, labels = port.series("net_tx_bytes"), port.series("rdma_tx_bytes"), port.labels()
    elsewhere, beside = (
        site.select(meter, node=port.device, port=MANAGEMENT) for meter in ("net_tx_bytes", "rdma_tx_bytes")
    )
    much = limit * 1.1
    share = much / TCP_TIMES_RDMA
    yield fires("RDMA is idle", labels, growing(tcp, much), constant(rdma, 0))
    yield fires("the RDMA device is gone", labels, growing(tcp, much), ended_series(rdma, 200))
    yield fires("little RDMA", labels, growing(tcp, much), growing(rdma, share * 0.9))
    yield near_miss("some RDMA", growing(tcp, much), growing(rdma, share * 1.1))
    yield near_miss("little TCP", growing(tcp, limit * 0.9), constant(rdma, 0))
    yield near_miss("TCP for a minute", lately(tcp, 90, much), constant(rdma, 0))
    yield near_miss("the card does not count RDMA", growing(tcp, much))
    yield near_miss("TCP on an interface without a rail", growing(elsewhere, much), constant(beside, 0))


def _straggler(site: MonitoredCluster) -> Alert:
    idle, step = (f"avg_over_time({site.select(meter)}[1m])" for meter in ("idle_seconds", "step_seconds"))
    mean_idle, mean_step = (f"avg by (cluster) ({values})" for values in (idle, step))
    return Alert(
        name="RailbedStragglerRank",
        expr=f"{idle} < on (cluster) group_left () {LEAST_IDLE_SHARE} * {mean_idle}\n"
        f"and on (cluster) {mean_idle} > {IDLE_SHARE_OF_STEP} * {mean_step}",
        hold="1m",
        summary="The other ranks wait for rank {{ $labels.rank }} on {{ $labels.node }}.",
        action="It computes or reads more slowly, or its links are slower. `railbed diagnose` compares it with the "
        "others.",
        cases=tuple(_straggler_cases(site)),
    )


def _straggler_cases(site: MonitoredCluster) -> Iterator[Case]:
    node = next(iter(site.cluster.nodes))
    wait = IDLE_SHARE_OF_STEP * 4 / 3  # the slow rank, which does not wait, is part of the mean

    def steps(*idle: float) -> Iterator[dict[str, str]]:
        for rank, seconds in enumerate(idle):
            yield constant(site.series("idle_seconds", device=node, part=str(rank)), seconds)
            yield constant(site.series("step_seconds", device=node, part=str(rank)), 1.0)

    labels = {"cluster": site.name, "node": node, "rank": "0"}
    waiting, little = [wait * 1.1] * 3, LEAST_IDLE_SHARE * wait * 0.75
    yield fires("three ranks wait for one", labels, *steps(0.0, *waiting))
    yield fires("it hardly waits itself", labels, *steps(little, *waiting))
    yield near_miss("they wait for a short time", *steps(0.0, *[wait * 0.9] * 3))
    yield near_miss("it waits as well", *steps(little * 1.4, *waiting))
    yield near_miss("all wait for the network", *steps(*[wait] * 4))
    late = [
        changed_series(name, 40, 0.0, 3 * wait) for part in steps(0.0, *waiting) for name in part if "idle" in name
    ][1:]
    yield near_miss("for a moment", *steps(*[0.0] * 4), *late)
