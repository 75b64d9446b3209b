"""`show interface counters` and `… errors`: one table per group of columns, so several rows per interface."""

from __future__ import annotations

from collections.abc import Sequence

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.model.config import Interface
from switchlab.nexus.model.counters import Port
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.show.interfaces import select_interfaces
from switchlab.nexus.show.layout import Row, table

WIDE, NARROW = "-" * 82, "-" * 80
Columns = tuple[tuple[str, str, str], ...]  # heading, JSON key, counter
ERROR_TABLES: tuple[Columns, ...] = (
    (
        ("Align-Err", "eth_align_err", "align"),
        ("FCS-Err", "eth_fcs_err", "fcs"),
        ("Xmit-Err", "eth_xmit_err", "xmit"),
        ("Rcv-Err", "eth_rcv_err", "rcv"),
        ("UnderSize", "eth_undersize", "undersize"),
        ("OutDiscards", "eth_outdisc", "out_discards"),
    ),
    (
        ("Single-Col", "eth_single_col", "single_collisions"),
        ("Multi-Col", "eth_multi_col", "multi_collisions"),
        ("Late-Col", "eth_late_col", "late_collisions"),
        ("Exces-Col", "eth_excess_col", "excess_collisions"),
        ("Carri-Sen", "eth_carri_sen", "carrier_sense"),
        ("Runts", "eth_runts", "runts"),
    ),
    (
        ("Giants", "eth_giants", "giants"),
        ("SQETest-Err", "", ""),
        ("Deferred-Tx", "eth_deferred_tx", "deferred"),
        ("IntMacTx-Er", "eth_inmactx_err", "mac_tx"),
        ("IntMacRx-Er", "eth_inmacrx_err", "mac_rx"),
        ("Symbol-Err", "eth_symbol_err", "symbol"),
    ),
    (("InDiscards", "eth_indisc", "in_discards"),),
    (("Stomped-CRC", "eth_stomped_crc", "stomped_crc"),),
)
MGMT_ERRORS = (
    "align",
    "fcs",
    "single_collisions",
    "multi_collisions",
    "late_collisions",
    "excess_collisions",
    "giants",
)
COUNTER_TABLES = (
    ("rx", ("InOctets", "eth_inbytes", "rx_bytes"), ("InUcastPkts", "eth_inucast", "rx_unicast")),
    ("rx", ("InMcastPkts", "eth_inmcast", "rx_multicast"), ("InBcastPkts", "eth_inbcast", "rx_broadcast")),
    ("tx", ("OutOctets", "eth_outbytes", "tx_bytes"), ("OutUcastPkts", "eth_outucast", "tx_unicast")),
    ("tx", ("OutMcastPkts", "eth_outmcast", "tx_multicast"), ("OutBcastPkts", "eth_outbcast", "tx_broadcast")),
)


def _physical(switch: Switch, names: Sequence[str]) -> list[tuple[Interface, Port]]:
    interfaces = [item for item in select_interfaces(switch, names) if item.kind in ("ethernet", "mgmt")]
    ordered = sorted(interfaces, key=lambda item: item.kind != "mgmt")
    return [(item, switch.ports[item.name]) for item in ordered]


def show_counters(switch: Switch, names: Sequence[str] = ()) -> Shown:
    text, rows = "", {"rx": list[Row](), "tx": list[Row]()}
    for side, left, right in COUNTER_TABLES:
        text += f"\n{WIDE}\nPort{left[0]:>45}{right[0]:>33}\n{WIDE}\n"
        for interface, port in _physical(switch, names):
            values = getattr(port, left[2]), getattr(port, right[2])
            text += f"{interface.short_name:<16}{values[0]:>33}{values[1]:>33}\n"
            # The management port reports its octets under the key for packets.
            key = left[1].replace("bytes", "pkts") if interface.kind == "mgmt" else left[1]
            rows[side].append({f"interface_{side}": interface.name, key: values[0], right[1]: values[1]})
    return Shown(text, table("rx_counters", rows["rx"]) | table("tx_counters", rows["tx"]))


def show_errors(switch: Switch, names: Sequence[str] = ()) -> Shown:
    text, rows = "", list[Row]()
    for number, columns in enumerate(ERROR_TABLES):
        rule = NARROW if number in (0, 4) else WIDE
        stomped = columns[0][0] == "Stomped-CRC"
        if stomped and switch.platform.layout in ("ale", "n5k"):
            continue
        widths = [max(11, len(heading) + 1) for heading, _, _ in columns]
        heading = "".join(f"{heading:>{width}}" for (heading, _, _), width in zip(columns, widths, strict=True))
        text += f"\n{rule}\nPort        {heading}\n{rule}\n"
        for interface, port in _physical(switch, names):
            if stomped and interface.kind == "mgmt":
                continue
            values = [_error(interface, port, counter) for _, _, counter in columns]
            cells = "".join(f"{value:>{width}}" for value, width in zip(values, widths, strict=True))
            text += f"{interface.short_name:<12}{cells}\n"
            row: Row = {"interface": interface.name}
            row |= {key: value for (_, key, _), value in zip(columns, values, strict=True) if key and value != "--"}
            if len(row) > 1:
                rows.append(row)
    return Shown(text, table("interface", rows))


def _error(interface: Interface, port: Port, counter: str) -> int | str:
    if not counter or (interface.kind == "mgmt" and counter not in MGMT_ERRORS):
        return "--"
    return port.errors[counter]
