"""Priority flow control and its watchdog."""

from __future__ import annotations

from collections.abc import Sequence

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.model.counters import Watchdog
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.model.traffic import flow_control
from switchlab.nexus.show.interfaces import select_interfaces
from switchlab.nexus.show.layout import Row, table

PAUSE_BUFFER = (348_608, 77_376, 75_712)  # size, pause threshold, resume threshold, as a 100G port carves them
RULE = "=" * 60
SLOT = "slot  1\n=======\n\n"
BOX = "+----------------------------------------------------+"
WATCHDOG_ROWS = (
    ("Shutdown", "shutdown"),
    ("Restored", "restored"),
    ("Total pkts drained", "drained"),
    ("Total pkts dropped", "dropped"),
    ("Total pkts drained + dropped", "drained+dropped"),
    ("Aggregate pkts dropped", "dropped"),
    ("Total Ingress pkts dropped", "ingress_dropped"),
    ("Aggregate Ingress pkts dropped", "ingress_dropped"),
)


def pfc_ports(switch: Switch, names: Sequence[str]) -> list[str]:
    """Return the ports that PFC tables list: Ethernet, and on boxes with an ALE also the internal ones."""
    ports = [item.name for item in select_interfaces(switch, names) if item.kind == "ethernet"]
    return ports if names else [*ports, *switch.internal_ports]


def pfc_state(switch: Switch, port: str) -> tuple[str, bool, int]:
    """Return the configured mode, whether PFC is operational, and the bitmap of protected priorities."""
    if port.startswith("ii"):
        return "Auto", False, 0
    interface, link = switch.running.interfaces[port], switch.links[port]
    mode = (switch.running.governing(port) or interface).pfc_mode
    bitmap = sum(1 << cos for cos in switch.pfc_on(port))
    enabled = (mode == "on" or (mode == "auto" and link.dcbx_peer)) and not flow_control(switch.running, port)
    return mode.capitalize(), enabled and switch.is_up(interface), bitmap


def show_pfc(switch: Switch, names: Sequence[str] = ()) -> Shown:
    lines = [RULE, "Port               Mode Oper(VL bmap)  RxPPP      TxPPP", RULE]
    rows: list[Row] = []
    for name in pfc_ports(switch, names):
        mode, operational, bitmap = pfc_state(switch, name)
        port = switch.ports[name]
        oper = f"{'On':<4} ({bitmap:x})".ljust(15) if operational else "Off".ljust(14)
        lines.append(f"{name:<18} {mode:<4} {oper}{sum(port.pfc_rx):<10} {sum(port.pfc_tx):<10}".rstrip())
        rows.append(_pfc_row(switch, name))
    prefix = "" if switch.platform.family == "n5k" else SLOT
    return Shown(
        prefix + "\n".join(lines) + "\n", table("module", [{"module_number": 1, **table("pfc_interface", rows)}])
    )


def _pfc_row(switch: Switch, name: str) -> Row:
    mode, operational, bitmap = pfc_state(switch, name)
    port = switch.ports[name]
    return {
        "if_name_str": name,
        "admin": mode,
        "oper": f"On  ({bitmap:x})" if operational else "Off",
        "rx-stats": sum(port.pfc_rx),
        "tx-stats": sum(port.pfc_tx),
    }


def show_pfc_detail(switch: Switch, names: Sequence[str] = ()) -> Shown:
    rule = "    " + "-" * 117
    heading = "        |" + "".join(f"  Priority{number}  |" for number in range(8))
    text, rows = SLOT, list[Row]()
    for name in pfc_ports(switch, names):
        mode, operational, bitmap = pfc_state(switch, name)
        port = switch.ports[name]
        counts = [
            f"    {side}  " + "".join(f"|{value:<13}" for value in values)
            for side, values in (("Rx", port.pfc_rx), ("Tx", port.pfc_tx))
        ]
        lines = [
            f"{name}:",
            f"    Admin Mode: {mode}",
            f"    Oper Mode: {'On' if operational else 'Off'}",
            f"    VL bitmap: ({bitmap:x})" if operational else "    VL bitmap:",
            f"    Total Rx PFC Frames: {sum(port.pfc_rx)}",
            f"    Total Tx PFC Frames: {sum(port.pfc_tx)}",
            *(rule, heading, rule, counts[0], rule, counts[1], rule),
        ]
        text += "\n".join(lines) + "\n\n"
        frames = zip(port.pfc_rx, port.pfc_tx, strict=True)
        priorities: list[Row] = [
            {"priority": number, "rx-ppp": rx, "tx-ppp": tx} for number, (rx, tx) in enumerate(frames)
        ]
        rows.append(_pfc_row(switch, name) | {"vl-bmap": f"{bitmap:x}"} | table("pfc_priority", priorities))
    return Shown(text, table("module", [{"module_number": 1, **table("pfc_interface", rows)}]))


def watchdog_enabled(switch: Switch, port: str) -> bool:
    """Return whether the watchdog runs on a port: it needs both the global and the interface command."""
    key = "priority-flow-control watch-dog-interval"
    interface = switch.running.governing(port) or switch.running.interfaces[port]
    settings = switch.running.settings.get(key, ""), interface.settings.get(key, "")
    return all(value.endswith(" on") for value in settings)


def _watchdog_settings(switch: Switch) -> Row:
    """Return the global settings of the watchdog."""
    settings, prefix = switch.running.settings, "priority-flow-control"

    def value(name: str, default: int) -> int:
        return int(settings.get(f"{prefix} {name}", str(default)).split()[-1])

    enabled = settings.get(f"{prefix} watch-dog-interval", "").endswith(" on")
    return {
        "glb-wd-status": "Enabled" if enabled else "Disabled",
        "glb-wd-force-status": "Not Enabled",
        "glb-wd-timer": value("watch-dog interval", 100),
        "glb-wd-timer-thresh": value("watch-dog shutdown-multiplier", 1),
        "glb-auto-restore": value("auto-restore multiplier", 10),
        "glb-fixed-restore": value("fixed-restore multiplier", 0),
        "glb-int-intf-multi": 2,
    }


def _watchdog_port(switch: Switch, name: str) -> Row:
    settings = switch.running.interfaces[name].settings
    multiplier = settings.get("priority-flow-control watch-dog interface-multiplier", "0").split()[-1]
    enabled = "Enabled" if watchdog_enabled(switch, name) else "Disabled"
    row: Row = {
        "if_name_str": f"{name} Interface PFC watchdog: [{enabled}]",
        "wd-status": enabled,
        "disable-action": "No",
    }
    return row | {"intf-multi": int(multiplier), "vl-bmp": f"0x{sum(1 << cos for cos in switch.pfc_on(name)):x}"}


def _front_ports(switch: Switch, names: Sequence[str]) -> list[str]:
    return [name for name in pfc_ports(switch, names) if not name.startswith("ii")]


def show_pfc_queue(switch: Switch, names: Sequence[str] = ()) -> Shown:
    settings = _watchdog_settings(switch)
    lines = [
        *(BOX, f"Global watch-dog interval [{settings['glb-wd-status']}]", BOX, BOX),
        "Global PFC watchdog configuration details",
        f"PFC watch-dog poll interval            : {settings['glb-wd-timer']} ms",
        f"PFC watch-dog shutdown multiplier      : {settings['glb-wd-timer-thresh']}",
        f"PFC watch-dog auto-restore multiplier  : {settings['glb-auto-restore']}",
        f"PFC watch-dog fixed-restore multiplier : {settings['glb-fixed-restore']}",
        f"PFC watchdog internal-interface multiplier : {settings['glb-int-intf-multi']}",
        *(BOX, "|      Port     PFC Watchdog  (VL bmap)   State   |", BOX),
    ]
    rows: list[Row] = []
    for name in _front_ports(switch, names):
        row, watchdogs = _watchdog_port(switch, name), switch.ports[name].watchdogs
        shut = any(item.active for item in watchdogs.values())
        lines.append(
            f" {name:<15} {row['wd-status']:<13} ({row['vl-bmp']})".ljust(42) + (" Shutdown" if shut else " -")
        )
        for group in switch.pfc_on(name).values():
            row[f"qosgrp_{group}_state"] = "S" if group in watchdogs and watchdogs[group].active else "A"
        rows.append(row)
    data = settings | table("queuing_interface", rows)
    return Shown(SLOT + "\n".join(lines) + "\n", table("module", [{"module_number": 1, **data}]))


def show_pfc_queue_detail(switch: Switch, names: Sequence[str] = ()) -> Shown:
    text, rows = SLOT, list[Row]()
    for name in _front_ports(switch, names):
        row = _watchdog_port(switch, name)
        text += f"{row['if_name_str']}\nDisable-action                     : No\n"
        text += f"PFC watch-dog interface-multiplier : {row['intf-multi']}\n"
        groups: list[Row] = []
        for cos, group in switch.pfc_on(name).items():
            watchdog = switch.ports[name].watchdog(group)
            text += _watchdog_box(group, cos, watchdog)
            groups.append(_watchdog_row(group, cos, watchdog))
        rows.append(row | table("qosgrp_stats", groups))
    data = _watchdog_settings(switch) | table("queuing_interface", rows)
    return Shown(text, table("module", [{"module_number": 1, **data}]))


def _value(watchdog: Watchdog, counter: str) -> int:
    return sum(int(getattr(watchdog, name)) for name in counter.split("+"))


def _watchdog_box(group: int, cos: int, watchdog: Watchdog) -> str:
    state = "Shutdown" if watchdog.active else "Active"
    lines = [
        BOX,
        f"| QOS GROUP {group} [{state}] PFC [YES] PFC-COS [{cos}]",
        BOX,
        f"|{'':31}|  Stats             |",
        BOX,
    ]
    lines += [f"|{heading:>31}|{_value(watchdog, counter):>20}|" for heading, counter in WATCHDOG_ROWS]
    return "\n".join([*lines, BOX]) + "\n"


def _watchdog_row(group: int, cos: int, watchdog: Watchdog) -> Row:
    keys = ("shutdown", "restored", "pkt-drained", "pkt-dropped", "pkt-drained-n-dropped", "aggr-pkt-dropped")
    entries: list[Row] = [
        {"q-stat-type": heading, f"q-{key}": _value(watchdog, counter)}
        for key, (heading, counter) in zip(
            (*keys, "ing-pkt-dropped", "ing-aggr-pkt-dropped"), WATCHDOG_ROWS, strict=True
        )
    ]
    state = "Shutdown" if watchdog.active else "Active"
    row: Row = {"eq-qosgrp": group, "eq-qosgrp-state": state, "pfc-configured": "YES", "pfc-cos": cos}
    return row | table("qosgrp_stats_entry", entries)


def show_flowcontrol(switch: Switch, names: Sequence[str] = ()) -> Shown:
    rule = "-" * 80
    lines = [
        rule,
        "Port          Send FlowControl  Receive FlowControl  RxPause TxPause",
        "              admin    oper     admin    oper",
        rule,
    ]
    rows: list[Row] = []
    for interface in select_interfaces(switch, names):
        if interface.kind != "ethernet":
            continue
        port = switch.ports[interface.name]
        settings = (switch.running.governing(interface.name) or interface).settings
        send = settings.get("flowcontrol send", "off").split()[-1]
        receive = settings.get("flowcontrol receive", "off").split()[-1]
        states = "".join(f"{state:<8} " for state in (send, send, receive, receive))
        lines.append(f"{interface.short_name:<13} {states}{port.rx_pause:<10} {port.tx_pause}")
        row: Row = {"interface": interface.name, "eth_senda": send, "eth_recva": receive}
        rows.append(row | {"eth_rxpause": port.rx_pause, "eth_txpause": port.tx_pause})
    return Shown("\n".join(lines) + "\n", table("interface", rows))
