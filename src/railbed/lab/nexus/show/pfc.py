"""Priority flow control and its watchdog."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.lab.nexus.cli.context import Shown
from railbed.lab.nexus.model.counters import Watchdog
from railbed.lab.nexus.model.switch import Switch
from railbed.lab.nexus.show.interfaces import chosen
from railbed.lab.nexus.show.layout import Row, table

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
    ports = [item.name for item in chosen(switch, names) if item.kind == "ethernet"]
    return ports if names else [*ports, *switch.internal_ports]


def pfc_state(switch: Switch, port: str) -> tuple[str, bool, int]:
    """Return the configured mode, whether PFC is operational, and the bitmap of protected priorities."""
    if port.startswith("ii"):
        return "Auto", False, 0
    interface, link = switch.running.interfaces[port], switch.links[port]
    bitmap = sum(1 << cos for cos in switch.pfc_on(port))
    enabled = interface.pfc_mode == "on" or (interface.pfc_mode == "auto" and link.dcbx_peer)
    return interface.pfc_mode.capitalize(), enabled and switch.is_up(interface), bitmap


def show_pfc(switch: Switch, names: Sequence[str] = ()) -> Shown:
    lines = [RULE, "Port               Mode Oper(VL bmap)  RxPPP      TxPPP", RULE]
    rows: list[Row] = []
    for name in pfc_ports(switch, names):
        mode, operational, bitmap = pfc_state(switch, name)
        port = switch.ports[name]
        oper = f"{'On':<4} ({bitmap:x})".ljust(15) if operational else "Off".ljust(14)
        lines.append(f"{name:<18} {mode:<4} {oper}{sum(port.pfc_rx):<10} {sum(port.pfc_tx):<10}".rstrip())
        value = f"On  ({bitmap:x})" if operational else "Off"
        rows.append(
            {
                "if_name_str": name,
                "admin": mode,
                "oper": value,
                "rx-stats": sum(port.pfc_rx),
                "tx-stats": sum(port.pfc_tx),
            }
        )
    prefix = "" if switch.platform.family == "n5k" else SLOT
    return Shown(
        prefix + "\n".join(lines) + "\n", table("module", [{"module_number": 1, **table("pfc_interface", rows)}])
    )


def show_pfc_detail(switch: Switch, names: Sequence[str] = ()) -> Shown:
    rule = "    " + "-" * 117
    heading = "        |" + "".join(f"  Priority{number}  |" for number in range(8))
    text = SLOT
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
    return Shown(text)


def watchdog_enabled(switch: Switch, port: str) -> bool:
    """Return whether the watchdog runs on a port: it needs both the global and the interface command."""
    key = "priority-flow-control watch-dog-interval"
    settings = switch.running.settings.get(key, ""), switch.running.interfaces[port].settings.get(key, "")
    return all(value.endswith(" on") for value in settings)


def show_pfc_queue(switch: Switch, names: Sequence[str] = ()) -> Shown:
    settings = switch.running.settings
    key = "priority-flow-control watch-dog"
    enabled = "Enabled" if settings.get(f"{key}-interval", "").endswith(" on") else "Disabled"
    interval = settings.get(f"{key} interval", "100").split()[-1]
    multiplier = settings.get(f"{key} shutdown-multiplier", "1").split()[-1]
    auto = settings.get("priority-flow-control auto-restore multiplier", "10").split()[-1]
    fixed = settings.get("priority-flow-control fixed-restore multiplier", "0").split()[-1]
    lines = [
        *(BOX, f"Global watch-dog interval [{enabled}]", BOX, BOX, "Global PFC watchdog configuration details"),
        f"PFC watch-dog poll interval            : {interval} ms",
        f"PFC watch-dog shutdown multiplier      : {multiplier}",
        f"PFC watch-dog auto-restore multiplier  : {auto}",
        f"PFC watch-dog fixed-restore multiplier : {fixed}",
        "PFC watchdog internal-interface multiplier : 2",
        *(BOX, "|      Port     PFC Watchdog  (VL bmap)   State   |", BOX),
    ]
    for name in pfc_ports(switch, names):
        if name.startswith("ii"):
            continue
        state = "Enabled" if watchdog_enabled(switch, name) else "Disabled"
        shut = any(item.active for item in switch.ports[name].watchdogs.values())
        bitmap = sum(1 << cos for cos in switch.pfc_on(name))
        lines.append(f" {name:<15} {state:<13} ({bitmap:#x})".ljust(42) + (" Shutdown" if shut else " -"))
    return Shown(SLOT + "\n".join(lines) + "\n")


def show_pfc_queue_detail(switch: Switch, names: Sequence[str] = ()) -> Shown:
    text, rows = SLOT, list[Row]()
    for name in pfc_ports(switch, names):
        if name.startswith("ii"):
            continue
        enabled = "Enabled" if watchdog_enabled(switch, name) else "Disabled"
        multiplier = (
            switch.running.interfaces[name]
            .settings.get("priority-flow-control watch-dog interface-multiplier", "0")
            .split()[-1]
        )
        text += f"{name} Interface PFC watchdog: [{enabled}]\nDisable-action                     : No\n"
        text += f"PFC watch-dog interface-multiplier : {multiplier}\n"
        groups: list[Row] = []
        for cos, group in switch.pfc_on(name).items():
            watchdog = switch.ports[name].watchdog(group)
            text += _watchdog_box(group, cos, watchdog)
            groups.append(_watchdog_row(group, watchdog))
        label = f"{name} Interface PFC watchdog: [{enabled}]"
        rows.append({"if_name_str": label, **table("qosgrp_stats", groups)})
    return Shown(text, table("module", [{"module_number": 1, **table("queuing_interface", rows)}]))


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


def _watchdog_row(group: int, watchdog: Watchdog) -> Row:
    keys = ("shutdown", "restored", "total-pkts-drain", "total-pkts-drop", "total-pkts-drain-drop", "aggr-pkts-drop")
    entries: list[Row] = [
        {"q-stat-type": heading, f"q-{key}": _value(watchdog, counter)}
        for key, (heading, counter) in zip((*keys, "ing-pkts-drop", "aggr-ing-pkts-drop"), WATCHDOG_ROWS, strict=True)
    ]
    return {"eq-qosgrp": group, **table("qosgrp_stats_entry", entries)}


def show_flowcontrol(switch: Switch, names: Sequence[str] = ()) -> Shown:
    rule = "-" * 80
    lines = [
        rule,
        "Port          Send FlowControl  Receive FlowControl  RxPause TxPause",
        "              admin    oper     admin    oper",
        rule,
    ]
    rows: list[Row] = []
    for interface in chosen(switch, names):
        if interface.kind != "ethernet":
            continue
        port = switch.ports[interface.name]
        send = interface.settings.get("flowcontrol send", "off").split()[-1]
        receive = interface.settings.get("flowcontrol receive", "off").split()[-1]
        lines.append(
            f"{interface.short_name:<13} {send:<8} off      {receive:<8} off      {port.rx_pause:<10} {port.tx_pause}"
        )
        row: Row = {"interface": interface.name, "eth_senda": send, "eth_recva": receive}
        rows.append(row | {"eth_rxpause": port.rx_pause, "eth_txpause": port.tx_pause})
    return Shown("\n".join(lines) + "\n", table("interface", rows))
