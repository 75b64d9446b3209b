"""Alerts about a lossless fabric: pauses, congestion notifications, drops."""

from __future__ import annotations

from collections.abc import Iterator

from railbed.web.monitoring.alerts import Alert, Case, constant, fires, grew, growing, jumping, lately, near_miss
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
