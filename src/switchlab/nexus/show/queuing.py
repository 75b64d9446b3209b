"""`show queuing interface` in the layouts of the ASIC generations, and `show queuing summary`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.model.config import PolicyClass
from switchlab.nexus.model.counters import Port, Queue
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.show.layout import Row, table
from switchlab.nexus.show.pfc import PAUSE_BUFFER, SLOT, pfc_ports
from switchlab.nexus.show.queuing_n5k import n5k_text

RULE = "-" * 78


@dataclass(frozen=True, slots=True)
class Statistic:
    """One row of the egress table."""

    kind: str
    units: str
    unicast: Callable[[Queue], int]
    multicast: Callable[[Queue], int] = lambda _: 0


TX = (
    Statistic("Tx", "Pkts", lambda queue: queue.tx_packets, lambda queue: queue.multicast_packets),
    Statistic("Tx", "Byts", lambda queue: queue.tx_bytes, lambda queue: queue.multicast_bytes),
)
DEPTH = Statistic("Q Depth", "Byts", lambda queue: queue.depth_bytes)


def _drops(name: str) -> tuple[Statistic, Statistic]:
    return (
        Statistic(name, "Pkts", lambda queue: queue.drop_packets),
        Statistic(name, "Byts", lambda queue: queue.drop_bytes),
    )


STATISTICS: dict[str, tuple[Statistic, ...]] = {
    "ale": (*TX, *_drops("Dropped"), DEPTH),
    "cloudscale-9.2": (*TX, *_drops("WRED & Tail Drop"), DEPTH),
    "cloudscale": (
        *TX,
        *_drops("WRED/AFD & Tail Drop"),
        DEPTH,
        Statistic("WD & Tail Drop", "Pkts", lambda queue: queue.watchdog_drops),
        Statistic("ECN", "Pkts", lambda queue: queue.ecn_packets),
        Statistic("ECN", "Byts", lambda queue: queue.ecn_bytes),
    ),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """The dimensions of the egress table: widths of the labels, of the table and of its titles; and the columns."""

    label: int
    width: int
    title: int
    columns: tuple[str, ...]


FRAMES = {
    "ale": Frame(15, 67, 67, ("  Unicast       ", " OOBFC Unicast  ", "  Multicast     ")),
    "cloudscale-9.2": Frame(22, 57, 50, ("  Unicast       ", "Multicast       ")),
    "cloudscale": Frame(26, 61, 61, ("  Unicast       ", "Multicast       ")),
}


def show_queuing(switch: Switch, names: Sequence[str] = ()) -> Shown:
    if switch.platform.layout == "n5k":
        return Shown("\n".join(n5k_text(switch, name) for name in pfc_ports(switch, names)))
    text, rows = SLOT, list[Row]()
    for name in pfc_ports(switch, names):
        text += f"\n{_egress_text(switch, name)}\n{_ingress_text(switch, name)}\n{_pfc_text(switch, name)}\n"
        rows += [_egress_row(switch, name), _ingress_row(switch, name)]
    return Shown(text, table("module", [{"module_number": 1, **table("queuing_interface", rows)}]))


def show_queuing_summary(switch: Switch, names: Sequence[str] = ()) -> Shown:
    ports = pfc_ports(switch, names)
    text = SLOT + "".join(f"\n{_schedule_text(switch, name)}\n" for name in ports)
    rows = [_schedule_row(switch, name) for name in ports]
    return Shown(text, table("module", [{"module_number": 1, **table("queuing_interface", rows)}]))


def _groups(switch: Switch) -> list[int]:
    return list(range(switch.platform.queues))


def _classes(switch: Switch, name: str) -> dict[int, PolicyClass | None]:
    config = switch.running
    policy = config.policy_on(name, ("queuing", "output"))
    return {group: config.class_of_group(policy, group) for group in reversed(_groups(switch))}


def _scope(switch: Switch, name: str) -> str:
    interface = switch.running.interfaces.get(name)
    return "Interface" if interface and ("queuing", "output") in interface.policies else "System"


def _schedule(item: PolicyClass | None) -> tuple[str, str]:
    percent = item.value("bandwidth", "percent") if item else 0
    level = item.value("priority", "level") if item else None
    return ("-" if percent is None else str(percent)), ("-" if level is None else str(level))


def _queue_limit(switch: Switch) -> str:
    return "6(D)" if switch.platform.layout == "ale" else "9(D)"


def _schedule_text(switch: Switch, name: str) -> str:
    lines = [
        f"Egress Queuing for {name} [{_scope(switch, name)}]",
        *(RULE, "QoS-Group# Bandwidth% PrioLevel                Shape                   QLimit"),
        *("                                   Min          Max        Units   ", RULE),
    ]
    for group, item in _classes(switch, name).items():
        bandwidth, level = _schedule(item)
        lines.append(f"{group:>7}{bandwidth:>14}{level:>10}{'-':>12}{'-':>13}{'-':>6}{_queue_limit(switch):>16}")
    return "\n".join(lines)


def _special_groups(switch: Switch) -> tuple[str, ...]:
    """The queues of the switch itself; four-queue boxes number them."""
    suffix = (" 4", " 5") if switch.platform.queues == 4 else ("", "")
    return f"CONTROL QOS GROUP{suffix[0]}", f"SPAN QOS GROUP{suffix[1]}"


def _egress_text(switch: Switch, name: str) -> str:
    port, layout = switch.ports[name], switch.platform.layout
    lines = [_schedule_text(switch, name)]
    lines += [_group_table(switch, f"QOS GROUP {group}", port.queues.get(group, Queue())) for group in _groups(switch)]
    lines += [_group_table(switch, title, Queue()) for title in _special_groups(switch)]
    lines.append("+" + "-" * FRAMES[layout].width + "+")
    if layout == "ale":
        lines += ["Port Egress Statistics", "-" * 56, f"WRED Drop Pkts{port.wred_drops:>32}"]
    return "\n".join(lines) + "\n"


def _group_table(switch: Switch, title: str, queue: Queue) -> str:
    layout = switch.platform.layout
    frame = FRAMES[layout]
    rule = "+" + "-" * frame.width + "+"
    lines = [rule, f"|{title:>41}".ljust(frame.title + 1) + "|", rule]
    lines += [f"|{'':{frame.label + 1}}|{'|'.join(frame.columns)}|", rule]
    for statistic in STATISTICS[layout]:
        values = [statistic.unicast(queue), statistic.multicast(queue)]
        if layout == "ale":
            values.insert(1, 0)
        cells = "|".join(f"{value:>16}" for value in values)
        label = f"{statistic.kind} {statistic.units}"
        lines.append(f"|{label:>{frame.label}} |{cells}|")
    return "\n".join(lines)


def _pause_groups(switch: Switch, name: str) -> dict[int, int]:
    return {group: cos for cos, group in switch.pfc_on(name).items()}


def _ingress_text(switch: Switch, name: str) -> str:
    paused, rule = _pause_groups(switch, name), "-" * 53
    lines = [
        f"Ingress Queuing for {name}",
        *(rule, "QoS-Group#                 Pause", "           Buff Size       Pause Th      Resume Th", rule),
    ]
    for group in reversed(_groups(switch)):
        values = [str(value) for value in PAUSE_BUFFER] if group in paused else ["-", "-", "-"]
        lines.append(f"{group:>7}{values[0]:>15}{values[1]:>13}{values[2]:>13}")
    return "\n".join([*lines, "", *_ingress_statistics(switch, switch.ports[name])]) + "\n"


def _ingress_counters(switch: Switch, port: Port) -> list[tuple[str, str, int]]:
    if switch.platform.layout == "ale":
        return [("Ingress MMU Drop", "Pkts", port.mmu_drops), ("Ingress MMU Drop", "Bytes", port.mmu_drop_bytes)]
    return [
        ("Hi Priority Drop", "Pkts", port.high_priority_drops),
        ("Low Priority Drop", "Pkts", port.low_priority_drops),
        ("Ingress Overflow Drop", "Pkts", port.overflow_drops),
    ]


def _ingress_statistics(switch: Switch, port: Port) -> list[str]:
    rule, counters = "-" * 56, _ingress_counters(switch, port)
    if switch.platform.layout == "ale":
        return ["Port Ingress Statistics", rule, *(f"{kind} {units}{value:>20}" for kind, units, value in counters)]
    slice_drops = sum(item.overflow_drops for item in switch.ports.values())
    lines = ["Per Port Ingress Statistics", rule]
    lines += [f"{kind + ' ' + units:>26}{value:>28}" for kind, units, value in counters]
    return [*lines, rule, "Per Slice Ingress Statistics", rule, f"Ingress Overflow Drop Pkts{slice_drops:>28}"]


def _pfc_text(switch: Switch, name: str) -> str:
    port, operational = switch.ports[name], switch.pfc_on(name)
    ale = switch.platform.layout == "ale"
    rule = "-" * (76 if ale else 78)
    heading = (
        "COS QOS Group        PG   TxPause   TxCount         RxPause         RxCount"
        if ale
        else "PFC_COS QOS_Group   TxPause             TxCount   RxPause             RxCount"
    )
    totals = f"TxPPP:{sum(port.pfc_tx):>21},   RxPPP:{sum(port.pfc_rx):>21}"
    lines = ["PFC Statistics", rule, totals, rule, heading]
    for cos in range(8):
        group = operational.get(cos)
        tx, rx = port.pfc_tx[cos], port.pfc_rx[cos]
        if ale:
            label = "-" if group is None else str(group)
            lines.append(f"{cos:>4}{label:>10}{label:>10}  Inactive{tx:>10}        Inactive{rx:>16}")
        else:
            lines.append(f"{cos:>7}{group or 0:>10}  Inactive{tx:>20}  Inactive{rx:>20}")
    return "\n".join([*lines, rule]) + "\n"


def _schedule_row(switch: Switch, name: str) -> Row:
    configuration: list[Row] = []
    for group, item in _classes(switch, name).items():
        bandwidth, level = _schedule(item)
        row: Row = {"qosgrp": group, "bandwidth": bandwidth, "priority": level, "shape-min": "-", "shape-max": "-"}
        configuration.append(row | {"shape-units": "-", "q-limit": _queue_limit(switch)})
    scope = f"{name} [{_scope(switch, name)}]"
    return {"dir": "Egress", "if_name_str": scope, **table("qosgrp_cfg", configuration)}


def _egress_row(switch: Switch, name: str) -> Row:
    port = switch.ports[name]
    statistics: list[Row] = [
        {"eq-qosgrp": group, **_statistics(switch, port.queues.get(group, Queue()))} for group in _groups(switch)
    ]
    numbered = switch.platform.queues == 4
    for number, title in zip((5, 6), _special_groups(switch), strict=True):
        statistics.append({"eq-qosgrp": number if numbered else title, **_statistics(switch, Queue())})
    row = _schedule_row(switch, name) | table("qosgrp_egress_stats", statistics)
    if switch.platform.layout == "ale":
        drops: Row = {"ep-stat-type": "WRED Drop", "ep-stat-units": "Pkts", "ep-stat-value": port.wred_drops}
        row |= table("egress_stats_entry", [drops])
    return row


def _statistics(switch: Switch, queue: Queue) -> Row:
    entries: list[Row] = []
    for statistic in STATISTICS[switch.platform.layout]:
        row: Row = {
            "eq-stat-type": statistic.kind,
            "eq-stat-units": statistic.units,
            "eq-uc-stat-value": statistic.unicast(queue),
        }
        if switch.platform.layout == "ale":
            row["eq-oobfc-uc-stat-value"] = 0
        entries.append(row | {"eq-mc-stat-value": statistic.multicast(queue)})
    return table("qosgrp_egress_stats_entry", entries)


def _ingress_row(switch: Switch, name: str) -> Row:
    port, paused = switch.ports[name], _pause_groups(switch, name)
    configuration: list[Row] = []
    for group in reversed(_groups(switch)):
        values = PAUSE_BUFFER if group in paused else ("-", "-", "-")
        row: Row = {"qosgrp": group, "buffer-size": values[0], "pause-threshold": values[1]}
        configuration.append(row | {"resume-threshold": values[2]})
    entries: list[Row] = [
        {"ip-stat-type": kind, "ip-stat-units": units, "ip-stat-value": value}
        for kind, units, value in _ingress_counters(switch, port)
    ]
    return {
        "dir": "Ingress",
        "if_name_str": name,
        **table("qosgrp_cfg", configuration),
        **table("ingress_stats_entry", entries),
        "tx-ppp": sum(port.pfc_tx),
        "rx-ppp": sum(port.pfc_rx),
        **table("pfc_stats", _pause_rows(switch, name)),
    }


def _pause_rows(switch: Switch, name: str) -> list[Row]:
    port, groups, ale = switch.ports[name], switch.pfc_on(name), switch.platform.layout == "ale"
    rows: list[Row] = []
    for cos in range(8):
        group = groups.get(cos, "-" if ale else 0)
        row: Row = {"cos": cos, "pfc-qosgrp": group, **({"pfc-pg": group} if ale else {})}
        row |= {"tx-pause-state": "Inactive", "tx-pause-count": port.pfc_tx[cos]}
        rows.append(row | {"rx-pause-state": "Inactive", "rx-pause-count": port.pfc_rx[cos]})
    return rows
