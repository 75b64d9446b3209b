"""`show queuing interface` of the Nexus 5000 and 6000, whose queues are at the ingress."""

from __future__ import annotations

from switchlab.nexus.model.config import PolicyClass
from switchlab.nexus.model.counters import Queue
from switchlab.nexus.model.switch import Switch


def n5k_text(switch: Switch, name: str) -> str:
    config, port = switch.running, switch.ports[name]
    policy = config.system_policy(("network-qos", ""))
    classes = {
        group: item
        for item in (policy.classes.values() if policy else ())
        for group in config.class_maps["network-qos", item.name].groups
    }
    lines = [f"{name} queuing information:", "  TX Queuing", "    qos-group  sched-type  oper-bandwidth"]
    lines += [f"{group:>9}{_scheduler(switch, name, group)}" for group in sorted(classes)]
    lines += ["", "  RX Queuing"]
    for group, item in sorted(classes.items()):
        lines += _receive_queue(group, item, port.queues.get(group, Queue()))
    lines += ["  Total Multicast crossbar statistics:", "    Mcast pkts received from the cross-bar      : 0"]
    return "\n".join(lines) + "\n\n"


def _scheduler(switch: Switch, name: str, group: int) -> str:
    config = switch.running
    item = config.class_of_group(config.policy_on(name, ("queuing", "output")), group)
    if item is not None and "priority" in item.actions:
        return "       priority         0"
    percent = (item.value("bandwidth", "percent") if item else None) or 0
    return f"       WRR            {percent:>3}"


def _receive_queue(group: int, item: PolicyClass, queue: Queue) -> list[str]:
    lossless = "pause" in item.actions
    mtu = item.value("mtu", "mtu") or 1500
    size, resume, pause = (79_360, 20_480, 40_320) if lossless else (360_640, 0, 360_640)
    counters = (
        ("Pkts received over the port", queue.rx_packets + queue.ingress_drops),
        ("Ucast pkts sent to the cross-bar", queue.rx_packets),
        ("Mcast pkts sent to the cross-bar", queue.multicast_packets),
        ("Ucast pkts received from the cross-bar", queue.tx_packets),
        ("Pkts sent to the port", queue.tx_packets),
        ("Pkts discarded on ingress", queue.ingress_drops),
    )
    return [
        f"    qos-group {group}",
        f"    q-size: {size}, HW MTU: {mtu} ({mtu} configured)",
        f"    drop-type: {'no-drop' if lossless else 'drop'}, xon: {resume}, xoff: {pause}",
        "    Statistics:",
        *(f"        {label:<40}: {value}" for label, value in counters),
        f"        {'Per-priority-pause status':<40}: Rx (Inactive), Tx (Inactive)",
        "",
    ]
